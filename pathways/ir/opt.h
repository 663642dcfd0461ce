// pathways-opt: runs passes of the IR on text, and reads programs as clients send them.
#pragma once

namespace pw::ir {

// What `main` is to do. With `--import-program FILE` prints the IR of a pathways.v1.CompiledProgram in protobuf's text form; else it is what
// every tool of MLIR is: `pathways-opt --pw-place file.mlir`, `--help` for the rest. `--pw-portable` and `--pw-lower` are the two halves of the pipeline.
int OptMain(int argc, char** argv);

}  // namespace pw::ir
