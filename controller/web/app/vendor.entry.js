// What vendor/vendor.js is made of (scripts/vendor-page).
import htm from "htm";
import { h } from "preact";

export { render } from "preact";
export { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
export { default as uPlot } from "uplot";
export const html = htm.bind(h);
