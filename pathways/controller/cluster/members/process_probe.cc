#include "pathways/controller/cluster/members/process_probe.h"

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pw::controller {
namespace {

// The time limit of an attempt, and the pause between two attempts.
constexpr absl::Duration kProbeTime = absl::Milliseconds(100);
constexpr absl::Duration kProbePause = absl::Milliseconds(400);

}  // namespace

void ProcessProbe::Watch(const std::string& address, Wanted wanted, Ended ended) {
  if (address.empty()) return;
  Try(std::make_shared<const Watched>(Watched{address, std::move(wanted), std::move(ended)}));
}

void ProcessProbe::Try(std::shared_ptr<const Watched> watched) {
  transport_->Connect(watched->address, kProbeTime,
                      [this, context = context_, watched](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
                        context.Post([this, watched, status = connection.status()] { OnTried(watched, status); });
                      });
}

void ProcessProbe::OnTried(std::shared_ptr<const Watched> watched, const absl::Status& connected) {
  if (!watched->wanted()) return;
  if (net::NobodyListens(connected)) return watched->ended();
  context_.After(kProbePause, [this, watched = std::move(watched)] {
    if (watched->wanted()) Try(watched);
  });
}

}  // namespace pw::controller
