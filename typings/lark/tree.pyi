class Meta:
    start_pos: int
    end_pos: int

class Tree: ...
