// pathways-opt: the passes of the IR on text.
#include "pathways/ir/opt.h"

int main(int argc, char** argv) { return pw::ir::OptMain(argc, argv); }
