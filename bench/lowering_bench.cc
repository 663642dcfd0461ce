// Measures the controller's time to load a program, without compiling its executables: through the IR to each host's commands
// (BM_Load). The program is a chain of `nodes` computations, which moves between two hosts of `devices` devices after every
// `stay` computations. BM_Relower measures lowering alone, as after a change of mapping. Only transfers cost time for each shard.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/dispatch/lower_program.h"
#include "pathways/ir/compile.h"

namespace pw {
namespace {

struct Chain {
  Chain(int nodes, int devices, int stay) {
    std::vector<resource::HostDescription> hosts;
    ::pathways::v1::Program proto;
    proto.set_name("chain");
    ::pathways::v1::Compiled compiled;
    for (auto* value : {compiled.add_parameters(), compiled.add_outputs()}) value->set_dtype(11), value->add_shard_dims(8);
    for (int h = 0; h < 2; ++h) {
      hosts.push_back({absl::StrCat("h", h), "island", "cpu", "test", {}});
      hosts.back().devices.assign(devices, resource::DeviceDescription{"cpu", -1, "", "", {{"device", 0}}});
      program::Executable record;
      auto* executable = proto.add_executables();
      executable->set_num_replicas(1);
      executable->set_num_partitions(devices);
      auto* sharding = proto.add_shardings();
      record.hosts = {HostId(static_cast<uint32_t>(h))};
      for (int d = h * devices; d < (h + 1) * devices; ++d) {
        record.devices.push_back(DeviceId(d));
        executable->add_devices(d);
        sharding->add_devices(d);
      }
      executables.push_back(*program::CompleteExecutable(record, compiled));
    }
    (void)*topology.FormCluster(hosts);
    auto* arg = proto.add_nodes()->mutable_arg();
    arg->set_dtype(11);
    arg->add_dims(8);
    for (int n = 0; n < nodes; ++n) {
      auto* node = proto.add_nodes();
      node->set_location(absl::StrCat("train.py:", n, " in step"));
      node->mutable_compute()->set_executable(n / stay % 2);
      node->mutable_compute()->add_inputs(n);
      node->mutable_compute()->set_num_outputs(1);
    }
    proto.add_nodes()->mutable_result()->set_input(nodes);
    program = *program::ParseProgram(proto.SerializeAsString());
  }

  void Lower(const std::string& portable) const {
    const auto steps = *ir::LowerProgram(portable, program, executables, topology);
    benchmark::DoNotOptimize(*dispatch::LowerProgram(steps, program, executables, topology));
  }

  resource::Topology topology;
  program::Program program;
  std::vector<program::ExecutablePtr> executables;
};

void BM_Load(benchmark::State& state) {
  const Chain chain(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  size_t bytes = 0;
  for (auto _ : state) {
    const std::string portable = *ir::ImportProgram(chain.program, chain.executables);
    chain.Lower(portable);
    bytes = portable.size();
  }
  state.counters["portable_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Load)
    ->ArgNames({"nodes", "devices", "stay"})
    ->Unit(benchmark::kMillisecond)
    ->Args({1, 8, 1})
    ->Args({1000, 8, 1000})
    ->Args({1000, 2048, 1000})
    ->Args({1000, 8, 10})
    ->Args({1000, 2048, 10});

void BM_Relower(benchmark::State& state) {
  const Chain chain(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  const std::string portable = *ir::ImportProgram(chain.program, chain.executables);
  for (auto _ : state) chain.Lower(portable);
}
BENCHMARK(BM_Relower)
    ->ArgNames({"nodes", "devices", "stay"})
    ->Unit(benchmark::kMillisecond)
    ->Args({1000, 8, 1000})
    ->Args({1000, 2048, 1000});

void BM_IrAlone(benchmark::State& state) {
  const Chain chain(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  for (auto _ : state) {
    const std::string portable = *ir::ImportProgram(chain.program, chain.executables);
    benchmark::DoNotOptimize(*ir::LowerProgram(portable, chain.program, chain.executables, chain.topology));
  }
}
BENCHMARK(BM_IrAlone)
    ->ArgNames({"nodes", "devices", "stay"})
    ->Unit(benchmark::kMillisecond)
    ->Args({1000, 8, 10})
    ->Args({1000, 2048, 10});

}  // namespace
}  // namespace pw
