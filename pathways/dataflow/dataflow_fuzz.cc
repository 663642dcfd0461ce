// Fuzzes the decoders of the dataflow. Bytes that parse as a graph are planned for some of its hosts and serialized again. Bytes
// that parse as a frame have their reports fed to the edges of a small graph, whose invariants must hold.
#include <cstdint>
#include <memory>
#include <string>

#include "pathways/base/log.h"
#include "pathways/dataflow/frame.h"
#include "pathways/dataflow/graph_wire.h"

namespace {

using namespace pw::dataflow;  // NOLINT: a program of one function

void TryGraph(std::string_view bytes) {
  auto graph = ParseGraph(bytes);
  if (!graph.ok()) return;
  const std::string again = ToProto(**graph).SerializeAsString();
  auto twin = ParseGraph(again);
  PW_CHECK(twin.ok() && ToProto(**twin).SerializeAsString() == again);
  size_t planned = 0;
  for (uint32_t e = 0; e < (*graph)->edges().size() && planned < 100000; ++e) {
    const Placement &from = (*graph)->source(EdgeId(e)), &to = (*graph)->destination(EdgeId(e));
    for (pw::HostId host : {from.hosts().At(0), to.hosts().At(to.hosts().size() - 1)}) {
      planned += from.NumShardsOf(host) + to.NumShardsOf(host);
      const Edge& edge = (*graph)->edge(EdgeId(e));
      if (planned < 100000) PW_CHECK(!EdgePlan({edge.kind, edge.single}, from, to, host, {}).idle());
    }
  }
}

void TryFrame(std::string_view header, std::string_view payload) {
  pw::net::Frame frame{std::string(header), pw::Bytes::Copy(payload)};
  auto contents = ParseFrame(frame);
  if (!contents.ok()) return;
  const Placement from = Placement::Uniform(pw::HostId(0), 4, 2), to = Placement::Uniform(pw::HostId(2), 4, 2);
  for (const EdgeRules& rules : {EdgeRules{EdgeKind::kOneToOne}, EdgeRules{EdgeKind::kSparse}, EdgeRules{EdgeKind::kSparse, false, true},
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
    TryGraph(bytes);
  } else {
    const size_t payload = std::min<size_t>(data[0] - 1, bytes.size());
    TryFrame(bytes.substr(payload), bytes.substr(0, payload));
  }
  return 0;
}
