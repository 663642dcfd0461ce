#include "pathways/worker/housekeeping.h"

#include <utility>

namespace pw::worker {
namespace {

class MemoryOperator : public dataflow::Operator {
 public:
  explicit MemoryOperator(const Housekeeping::ReportMemory& report_memory) : report_memory_(report_memory) {}
  void OnInputsClosed(dataflow::Shard& shard) override {
    const Bytes report = Bytes::FromString(report_memory_().SerializeAsString());
    for (dataflow::EdgeId edge : shard.outputs()) shard.Send(edge, shard.index(), {report, absl::OkStatus()});
    shard.Finish();
  }

 private:
  const Housekeeping::ReportMemory report_memory_;
};

dataflow::Operators MakeOperators(Housekeeping::ReportMemory report_memory) {
  dataflow::Operators operators;
  operators.Add("memory",
                [report_memory = std::move(report_memory)](
                    const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
                  return std::make_unique<MemoryOperator>(report_memory);
                });
  return operators;
}

}  // namespace

Housekeeping::Housekeeping(Core* core, HostId self, Timers* timers, ReportMemory report_memory)
    : links_(core),
      operators_(MakeOperators(std::move(report_memory))),
      runtime_({self, core->strand, core->clock, timers, &links_, &operators_}, {}) {}

}  // namespace pw::worker
