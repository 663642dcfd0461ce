// Fuzzes the parser of programs. Each program that parses is cut at its waiting nodes, and each part must be a program that could run.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/program/cut.h"

namespace {

using namespace pw::program;  // NOLINT: a program of one function

// Returns executables with as many results as the first node that runs each of them expects.
std::vector<ExecutablePtr> Compiled(const Program& program) {
  std::vector<ExecutablePtr> executables(static_cast<size_t>(program.proto->executables_size()));
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::kCompute || executables[static_cast<size_t>(node.executable)] != nullptr) continue;
    auto specs = std::make_shared<std::vector<pw::buffers::ArraySpec>>(static_cast<size_t>(node.num_outputs));
    for (pw::buffers::ArraySpec& spec : *specs) {
      spec.dtype = pw::buffers::DType::kF32;
      spec.sharding = pw::buffers::Sharding::SingleDevice(pw::DeviceId(0), "");
    }
    auto executable = std::make_shared<Executable>();
    executable->output_specs = std::move(specs);
    executables[static_cast<size_t>(node.executable)] = std::move(executable);
  }
  return executables;
}

void CheckOrder(const Program& part) {
  for (size_t n = 0; n < part.nodes.size(); ++n) {
    PW_CHECK(!part.nodes[n].waits());
    for (int input : part.nodes[n].inputs) PW_CHECK(part.producer_of[static_cast<size_t>(input)] < static_cast<int>(n));
  }
}

void TryCut(const Program& program) {
  CutRoom room;
  const auto cut = CutProgram(program, Compiled(program), false, room);
  if (!cut.ok()) return;
  size_t results = 0;
  for (const Step& step : cut->steps) {
    results += step.results.size();
    PW_CHECK((step.part < 0) == (step.node >= 0));
  }
  PW_CHECK(results == program.results.size());
  for (const Part& part : cut->parts) CheckOrder(part.program);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto program = ParseProgram({reinterpret_cast<const char*>(data), size});
  if (!program.ok()) return 0;
  TryCut(*program);
  for (const Program& branch : program->branches) TryCut(branch);
  return 0;
}
