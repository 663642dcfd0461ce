// One program of many nodes over several hosts, called once per microbatch: without waiting, or after the previous call has ended.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/buffers/dtype.h"
#include "pathways/sim/workloads.h"
#include "pathways/v1/program.pb.h"

namespace pw::sim {
namespace {

class Pipeline final : public Workload {
 public:
  Pipeline(const WorkloadContext& context, const WorkloadSpec& spec)
      : Workload(context, spec),
        stages_(Number("stages", 4)),
        batches_(Number("batches", 8)),
        in_turn_(Number("in_turn", 0) != 0) {}

 private:
  const std::vector<int32_t>& Stage(int64_t s) { return hosts()[static_cast<size_t>(number() + s) % hosts().size()]; }

  // Arg, a computation on each stage with a transfer between stages, then the result.
  std::string Program() {
    pathways::v1::Program program;
    program.set_name("pipeline");
    auto* arg = program.add_nodes()->mutable_arg();
    arg->set_dtype(static_cast<int>(buffers::DType::kF32));
    arg->add_dims(4);
    uint32_t value = 0, made = 1;
    for (int64_t s = 0; s < stages_; ++s) {
      auto* executable = program.add_executables();
      executable->set_format("sim");
      executable->set_module(absl::StrCat("args=1 outputs=1 dims=4 us=", Number("us", 20)));
      executable->set_num_replicas(1);
      executable->set_num_partitions(static_cast<int>(Stage(s).size()));
      auto* sharding = program.add_shardings();
      for (int32_t device : Stage(s)) {
        executable->add_devices(device);
        sharding->add_devices(device);
      }
      if (s > 0) {
        auto* transfer = program.add_nodes()->mutable_transfer();
        transfer->set_input(value);
        transfer->set_sharding(static_cast<uint32_t>(s));
        value = made++;
      }
      auto* compute = program.add_nodes()->mutable_compute();
      compute->set_executable(static_cast<uint32_t>(s));
      compute->add_inputs(value);
      compute->set_num_outputs(1);
      value = made++;
    }
    program.add_nodes()->mutable_result()->set_input(value);
    return program.SerializeAsString();
  }

  void Go() override {
    std::vector<int32_t> all;
    for (int64_t s = 0; s < stages_; ++s) all.insert(all.end(), Stage(s).begin(), Stage(s).end());
    through_ = tenant().PlacesOf(all, {});
    tenant().Load(Program(), [this](uint64_t program) {
      if (program == 0) return Finish();
      left_ = batches_;
      for (int64_t b = 0; b < (in_turn_ ? std::min<int64_t>(1, batches_) : batches_); ++b) Batch(program, static_cast<float>(b));
    });
  }
  void Batch(uint64_t program, float b) {
    const Value x = tenant().Make(Stage(0), {b, b + 1, b + 2, b + 3});
    Four expected = x.expected;
    for (float& e : expected) {
      for (int64_t s = 0; s < stages_; ++s) e += 1;
    }
    const Value y = tenant().RunProgram(program, x, Stage(stages_ - 1), expected, through_);
    tenant().Read(y, [this, program, b, x, y] {
      tenant().Drop({x, y});
      if (--left_ == 0) return Finish();
      if (in_turn_) Batch(program, b + 1);
    });
  }

  const int64_t stages_;
  const int64_t batches_;
  const bool in_turn_;
  int64_t left_ = 0;
  Places through_;
};

}  // namespace

std::unique_ptr<Workload> MakePipeline(const WorkloadContext& context, const WorkloadSpec& spec) {
  return std::make_unique<Pipeline>(context, spec);
}

}  // namespace pw::sim
