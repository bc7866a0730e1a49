"""How the statements of new queries are made, and the plan of them."""

from __future__ import annotations

from orchestrator.api.sharing import with_sharing
from orchestrator.api.splitting import with_splits
from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests


def admitted(view: ClusterView, manifests: Manifests) -> tuple[Manifests, Admission]:
    """The manifests, with what is decided of their statements, and the plan of them.

    Decisions are made one after the other, so all together may be refused although each could be
    planned. Then nothing is shared.

    Parameters
    ----------
    manifests
        With what trials have found (`api.trial.with_trials`).

    Raises
    ------
    InvalidInput, Refused
        As `admit` does.
    """
    shared = with_sharing(view, manifests)
    made = with_splits(view, shared)
    try:
        return made, admit(view, made.streams, made.queries)
    except Refused:
        if shared == manifests:
            raise
    apart = with_splits(view, manifests)
    return apart, admit(view, apart.streams, apart.queries)
