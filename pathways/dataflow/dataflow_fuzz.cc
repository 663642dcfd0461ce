// Fuzzes the decoders of the dataflow. Bytes that parse as a part of a graph are planned for some hosts and serialized again. Bytes
// that parse as a frame have their reports fed to the edges of a small graph, whose invariants must hold.
#include <cstdint>
#include <memory>
#include <string>

#include "pathways/base/log.h"
#include "pathways/dataflow/frame.h"
#include "pathways/dataflow/host_plan.h"

namespace {

using namespace pw::dataflow;  // NOLINT: a program of one function

void TryPart(std::string_view bytes) {
  auto part = ParseGraphPart(bytes);
  if (!part.ok()) return;
  const std::string again = ToProto(**part).SerializeAsString();
  auto twin = ParseGraphPart(again);
  PW_CHECK(twin.ok() && ToProto(**twin).SerializeAsString() == again);
  const HostSet& hosts = (*part)->hosts();
  for (pw::HostId host : {hosts.At(0), hosts.At(hosts.size() - 1)}) {
    auto plan = HostPlan::Create(*part, hosts.At(0), host, {}, 100000);
    if (!plan.ok()) continue;  // too many shards
    for (const HostPlan::LocalEdge& edge : (*plan)->edges()) PW_CHECK(!edge.plan.idle());
  }
}

void TryFrame(std::string_view header, std::string_view payload) {
  pw::net::Frame frame{std::string(header), pw::Bytes::Copy(payload)};
  auto contents = ParseFrame(frame);
  if (!contents.ok()) return;
  const Placement from = Placement::Uniform(pw::HostId(0), 4, 2), to = Placement::Uniform(pw::HostId(2), 4, 2);
  for (const EdgeRules& rules :
       {EdgeRules{EdgeKind::kOneToOne}, EdgeRules{EdgeKind::kSparse}, EdgeRules{EdgeKind::kSparse, false, true},
        EdgeRules{EdgeKind::kOneToOne, true}, EdgeRules{EdgeKind::kAllToAll, true, true}}) {
    for (uint32_t direct_pairs : {0u, 64u}) {
      const EdgePlan plan(rules, from, to, pw::HostId(2), {2, direct_pairs});
      EdgeProgress progress(&plan);
      EdgeProgress::Effects effects;
      for (const TupleMessage& m : contents->tuples)
        progress.Received(m.run.coordinator, m.sequence, m.shard, m.tuple.error, &effects).IgnoreError();
      for (const ReportMessage& m : contents->reports) progress.OnReport(m.run.coordinator, m.report, &effects).IgnoreError();
      PW_CHECK(!progress.finished());  // this host's own source shards are not done
      PW_CHECK(effects.closed.size() <= 2);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 0) {
    TryPart(bytes);
  } else {
    const size_t payload = std::min<size_t>(data[0] - 1, bytes.size());
    TryFrame(bytes.substr(payload), bytes.substr(0, payload));
  }
  return 0;
}
