from lark import Token

class LarkError(Exception): ...

class UnexpectedInput(LarkError):
    pos_in_stream: int | None

class UnexpectedToken(UnexpectedInput):
    token: Token
    expected: set[str]
    accepts: set[str] | None

class UnexpectedCharacters(UnexpectedInput):
    allowed: set[str] | None

class VisitError(LarkError):
    orig_exc: Exception
