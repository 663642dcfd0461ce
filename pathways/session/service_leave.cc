// A controller that stops leaves its sessions to the next one (session.proto, Controllers that return).
//
// Most of a session goes on from any moment. But a copy between hosts, a program of many nodes and a file under way end with their
// controller, and so would their session. So the controller first carries out what it has begun, for as long as that gets on.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/session/service.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;

constexpr absl::Duration kLook = absl::Milliseconds(10);  // between two looks at what is under way

}  // namespace

absl::Status SessionService::Stopping() const {
  return absl::ResourceExhaustedError(absl::StrCat("the controller stops (", pausing_, "), and another one may take its place"));
}

void SessionService::Pause(const std::string& reason, absl::AnyInvocable<void() &&> quiet) {
  pausing_ = reason;
  for (auto& [id, entry] : sessions_) {
    if (entry.restoring || entry.observer) continue;
    entry.served->HoldBack();
    if (entry.link == 0) continue;
    ControllerFrame frame;
    frame.set_stopping(reason);
    frame.set_ack(entry.served->carried_out());
    entry.told = entry.served->carried_out();
    links_.at(entry.link)->connection().Send(frame.SerializeAsString());
  }
  auto pausing = std::make_shared<Pausing>();
  pausing->looks = kLongestPause / kLook;
  pausing->quiet = std::move(quiet);
  AwaitQuiet(std::move(pausing));
}

// Returns how many requests are under way, of the sessions whose clients can hear of their end.
size_t SessionService::Unsettled() {
  size_t unsettled = 0;
  for (auto& [id, entry] : sessions_) {
    if (entry.link == 0 || entry.restoring) continue;
    unsettled += entry.served->unsettled();
    PostFlush(id);  // what is settled causes no other frame
  }
  return unsettled;
}

void SessionService::AwaitQuiet(std::shared_ptr<Pausing> pausing) {
  const size_t unsettled = Unsettled();
  if (unsettled != std::exchange(pausing->unsettled, unsettled)) pausing->looks_in_vain = kPauseInVain / kLook;
  const bool over = pausing->looks-- == 0 || pausing->looks_in_vain-- == 0;
  if (unsettled == 0 || over) {
    if (over) {
      PW_LOG_INFO << unsettled << " requests are not settled: the next controller carries them out again, if it can";
    }
    return std::move(pausing->quiet)();
  }
  environment_.timers->After(kLook, environment_.cluster, [weak = weak_from_this(), pausing = std::move(pausing)]() mutable {
    if (auto self = weak.lock()) self->AwaitQuiet(std::move(pausing));
  });
}

void SessionService::TakeAcknowledgement(uint64_t session, const ClientFrame& frame) {
  const auto served = sessions_.at(session).served;
  const absl::Status status = served->Acknowledge(frame.ack());
  if (!status.ok() || frame.goodbye()) End(session, status);
}

void SessionService::Leave(const std::string& reason) {
  const absl::Status why = absl::UnavailableError(absl::StrCat("the controller stops: ", reason));
  pausing_ = reason;
  listeners_.clear();
  std::vector<uint64_t> observers;
  for (const auto& [id, entry] : sessions_) {
    if (entry.observer) observers.push_back(id);
  }
  for (uint64_t id : observers) End(id, why);
  std::vector<LinkId> opening;
  for (const auto& [link, of] : opening_) opening.push_back(link);
  for (LinkId link : opening) Refuse(link, why);
  left_ = true;
  for (auto& [id, entry] : sessions_) entry.link = 0;
  session_of_.clear();
  for (const auto& [id, link] : links_) link->connection().Close(why);
}

}  // namespace pw::session
