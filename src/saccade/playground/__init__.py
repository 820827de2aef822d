"""A static page that integrates both theories live in the browser; here only its server and the
export of records.

The page needs neither: `index.html` opens from disk. The engine is plain JavaScript, one concept a
file; `scan_and_snap.js`, `focus_and_dilution.js` and `theory.js` say at their top what they offer
and which files they need.
"""

from saccade.lazy import attach

__getattr__, __all__ = attach(__name__)
