"use strict";
// All sections are there: what the address says holds from here on.
pageState.restore();
