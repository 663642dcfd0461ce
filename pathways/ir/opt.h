// The tool pathways-opt: runs passes of the IR on text, and imports programs as clients send them.
#pragma once

namespace pw::ir {

// Runs the tool; `main` calls it. With `--import-program FILE` it prints the IR of a pathways.v1.CompiledProgram in protobuf's text form.
// Otherwise it has the options of every mlir-opt tool, such as `pathways-opt --pw-place file.mlir` (see `--help`). `--pw-portable` and
// `--pw-lower` are the two halves of the pipeline.
int OptMain(int argc, char** argv);

}  // namespace pw::ir
