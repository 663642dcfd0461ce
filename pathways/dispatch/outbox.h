// Outbox: commands on their way to hosts, batched so that each host gets one frame for everything that was decided in one turn of
// the controller's strand.
//
// Planners add commands; the strand's idle hook flushes. Releases are collected apart and go as one command behind the others of
// their batch: nothing after them in the batch names what they release, because the names are gone. A batch that grows large is
// closed early, so a busy turn neither holds a host up nor breaks the transport's limits; frames keep the order of the commands.
//
// Commands that name an array which a run is about to make or needs, where runs are sent bit by bit, wait until it has been sent
// (array_order.h). So does no other command.
//
// Pure data, strand-confined. Commands for hosts that are not there are dropped: whoever waits for their completion hears of the
// loss by another way.
//
// Invariants:
//   OB-1  frames of one host carry its commands in the order added, those that wait when they have waited; payloads lie in the same order
//   OB-2  a command is counted exactly once, when it is added; a Release command when its batch closes
//   OB-3  a host is told every number of SetReportsSeen, or a greater one, and none twice: with the next frame for it, or, if there is
//         none before the second TellReportsSeen, with a frame that holds nothing else
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "pathways/base/bytes.h"
#include "pathways/base/ids.h"
#include "pathways/dispatch/array_order.h"
#include "pathways/v1/worker.pb.h"

namespace pw::dispatch {

// What has been sent to one host, by kind of command, for tests that count and for `status`.
struct CommandCounters {
  std::map<::pathways::v1::Command::KindCase, uint64_t> commands;
  uint64_t frames = 0;

  uint64_t of(::pathways::v1::Command::KindCase kind) const;
};

class Outbox {
 public:
  void AddHost(HostId host);
  void RemoveHost(HostId host);
  bool HasHost(HostId host) const { return hosts_.contains(host); }

  // Payload bytes are the caller's business to announce in the command.
  void Add(HostId host, ::pathways::v1::Command command) { Add(host, std::move(command), {}); }
  void Add(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload);
  // Of a run itself: whatever waits.
  void AddNow(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload = {});
  void Release(HostId host, ArrayId array);
  // Runs that are sent bit by bit stand in it from the call until all of it has been sent.
  ArrayOrder& order() { return order_; }

  // How many of the host's reports have come by way of others (v1.ToWorker.reports_seen): the greatest number counts.
  void SetReportsSeen(HostId host, uint64_t number);
  // Makes frames for those that could have been told since the last time, and were not. True: look again later.
  bool TellReportsSeen();

  // Hands over every frame there is to send, in order. True if there was any.
  using Send = absl::FunctionRef<void(HostId host, std::string header, std::vector<Bytes> payload)>;
  bool Flush(Send send);

  // Zeroes for a host that is not there.
  CommandCounters counters(HostId host) const;

 private:
  struct Frame {
    std::string header;
    std::vector<Bytes> payload;
  };
  struct PerHost {
    ::pathways::v1::ToWorker batch;
    std::vector<Bytes> payload;
    size_t header_bytes = 0;  // about
    size_t payload_bytes = 0;
    std::vector<uint64_t> released;
    std::vector<Frame> closed;
    CommandCounters counters;
    bool queued = false;  // listed in busy_
    uint64_t reports_seen = 0;
    uint64_t reports_due = 0;  // seen when TellReportsSeen looked
    uint64_t reports_told = 0;
    bool reporting = false;  // listed in reporting_
  };
  void ReleaseNow(HostId host, ArrayId array);
  void Touch(HostId host, PerHost& box);
  static void Close(PerHost& box);

  absl::flat_hash_map<HostId, PerHost> hosts_;
  ArrayOrder order_;
  std::vector<HostId> busy_;       // hosts that have something, in the order in which they got it
  std::vector<HostId> reporting_;  // hosts that may have to be told what was seen, likewise
};

}  // namespace pw::dispatch
