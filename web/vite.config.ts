import { defineConfig } from "vite";

// The page lives below /dashboard, loads nothing from elsewhere, and has no
// inline script or style: the content security policy forbids them.
export default defineConfig({
  base: "/dashboard/",
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    emptyOutDir: true,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
