"""What to train next, and what is remembered: the brokers, the ledger under them, and the dashboard over it."""

from headtune.search.broker import SearchBroker
from headtune.search.dashboard import serve_dashboard
from headtune.search.draft import trial_key
from headtune.search.influence import Influence, influences
from headtune.search.ledger import Ledger, LedgerView
from headtune.search.replay import ReplayBroker, Retraining, Wanted
from headtune.search.sampler import SamplerName
from headtune.search.search_rules import SearchRules

__all__ = [
    "Influence",
    "Ledger",
    "LedgerView",
    "ReplayBroker",
    "Retraining",
    "SamplerName",
    "SearchBroker",
    "SearchRules",
    "Wanted",
    "influences",
    "serve_dashboard",
    "trial_key",
]
