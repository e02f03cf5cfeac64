//! VPP as a DUT over a recorded host: what it is asked, what is refused, and what becomes of what VPP refuses.

use super::*;
