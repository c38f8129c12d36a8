"""What a changed model carries, so that it can be written, and built again from what was written."""

from headtune.surgery.saving.document import described_edits
from headtune.surgery.saving.noting import Earlier, noted
from headtune.surgery.saving.rebuilding import rebuilt

__all__ = ["Earlier", "described_edits", "noted", "rebuilt"]
