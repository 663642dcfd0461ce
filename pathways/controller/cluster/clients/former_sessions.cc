#include "pathways/controller/cluster/clients/former_sessions.h"

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {

std::vector<SessionId> FormerSessions::Await(HostId host, const ::pathways::v1::Hello& hello) {
  const ClusterOptions& options = context_.options();
  const bool of_another = hello.has_former() && hello.epoch() != 0 && hello.epoch() < options.epoch;
  if (over_ || !of_another || !options.restores_sessions || options.controller_grace <= absl::ZeroDuration()) return {};
  expected_ = true;
  std::vector<SessionId> sessions;
  for (uint64_t session : hello.former().sessions()) {
    if (session == 0 || session >= kFirstObserver.v) continue;
    if (registry_->Find(SessionId(session)) != nullptr) continue;  // it has been restored without this host
    sessions.push_back(SessionId(session));
    registry_->Reserve(SessionId(session));
  }
  fabric_->holdings().Await(host, sessions);
  return sessions;
}

void FormerSessions::OnFormed() {
  formed_ = true;
  formed_at_ = context_.Now();
  held_ = expected_;
  if (held_) hold_(true);
  context_.After(context_.options().controller_grace, [this] { GiveUp(); });
}

bool FormerSessions::AreBack() const {
  return over_ ||
         (fabric_->holdings().complete() && fabric_->holdings().sessions().empty() && context_.Now() - formed_at_ >= kBackWithin);
}

void FormerSessions::OnTick() {
  if (!held_ || !AreBack()) return;
  held_ = false;
  hold_(false);
  for (auto& task : std::exchange(when_back_, {})) std::move(task)();
}

void FormerSessions::WhenBack(absl::AnyInvocable<void() &&> task) {
  if (!held_) return std::move(task)();
  when_back_.push_back(std::move(task));
}

void FormerSessions::GiveUp() {
  over_ = true;
  for (SessionId session : fabric_->holdings().sessions()) {
    if (registry_->Find(session) != nullptr) continue;  // it is being restored
    PW_LOG_INFO << "session " << session.v << " of the controller before ends: its client did not come back within "
                << absl::FormatDuration(context_.options().controller_grace);
    fabric_->holdings().Forget(session);
    fabric_->EndSession(session);
  }
}

absl::Status FormerSessions::CanRestore(SessionId session) const {
  if (!formed_ || !fabric_->holdings().complete())
    return absl::ResourceExhaustedError("the hosts of the controller before have not all come back yet");
  if (over_) {
    return absl::UnavailableError(absl::StrCat("the controller of session ", session.v,
                                               " has ended, and its client has not come to the next one within ",
                                               absl::FormatDuration(context_.options().controller_grace),
                                               ", which is the limit (--controller-grace); then its arrays were freed"));
  }
  if (session >= kFirstObserver || registry_->Find(session) != nullptr)
    return absl::UnavailableError(absl::StrCat("the controller of session ", session.v,
                                               " has ended, and the next one has given its number to another client"));
  return fabric_->holdings().Check(session);
}

}  // namespace pw::controller
