import { defineConfig } from "vite";

// No inlined assets and no preload script of Vite's: the controller's answers forbid both (pathways/http/site.cc).
export default defineConfig({
  base: "./",
  build: { assetsInlineLimit: 0, modulePreload: false, target: "es2022", reportCompressedSize: false },
});
