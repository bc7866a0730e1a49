from typing import NamedTuple

class Id(NamedTuple):
    scheme: str
    id: str

class ACL(NamedTuple):
    perms: int
    id: Id

def make_digest_acl(
    username: str,
    password: str,
    read: bool = ...,
    write: bool = ...,
    create: bool = ...,
    delete: bool = ...,
    admin: bool = ...,
    all: bool = ...,
) -> ACL: ...
