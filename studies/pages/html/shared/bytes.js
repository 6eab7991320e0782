"use strict";
// Numbers are in the page as base64, little-endian, as every browser's own arrays are.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}
