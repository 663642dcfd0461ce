#include "pathways/sim/mistakes.h"

#include <algorithm>

#include "pathways/base/request_name.h"
#include "pathways/v1/session.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::sim {
namespace {

namespace v1 = ::pathways::v1;

// Returns whether the command is a launch over several hosts that was granted with it: it then has its place in the order.
bool HasPlace(const v1::Command& command) {
  return command.has_execute() && command.execute().launch() != 0 && command.execute().grant() == 0;
}

SessionId SessionOf(const v1::Execute& execute) { return SessionOr(execute.session(), execute.op()); }

// Swaps two sessions' launches: either order is valid by itself, but other hosts have the opposite one.
bool WrongOrder(v1::ToWorker* message) {
  v1::Command* before = nullptr;
  for (v1::Command& command : *message->mutable_commands()) {
    if (command.has_grant() && command.grant().gangs_size() > 1) {
      std::reverse(command.mutable_grant()->mutable_gangs()->begin(), command.mutable_grant()->mutable_gangs()->end());
      return true;
    }
    if (!HasPlace(command)) continue;
    if (before != nullptr && SessionOf(before->execute()) != SessionOf(command.execute())) {
      before->Swap(&command);
      return true;
    }
    before = &command;
  }
  return false;
}

// One reference too few: an argument's memory is freed with its first use.
bool FreedEarly(v1::ToWorker* message) {
  for (const v1::Command& command : message->commands()) {
    if (!command.has_execute() || command.execute().args().empty()) continue;
    const uint64_t array = command.execute().args(0);
    message->add_commands()->mutable_release()->add_arrays(array);
    return true;
  }
  return false;
}

// One reference too many: released data stays.
bool ForgottenRelease(v1::ToWorker* message) {
  for (v1::Command& command : *message->mutable_commands()) {
    if (!command.has_release() || command.release().arrays().empty()) continue;
    command.mutable_release()->clear_arrays();
    return true;
  }
  return false;
}

// A reshard plan in which two pieces of equal size come from each other's places.
bool WrongPlan(v1::ToWorker* message) {
  v1::Move::Send* before = nullptr;
  for (v1::Command& command : *message->mutable_commands()) {
    if (!command.has_move()) continue;
    for (v1::Move::Send& send : *command.mutable_move()->mutable_sends()) {
      const bool like = before != nullptr && before->array() != send.array() &&
                        std::equal(before->region().size().begin(), before->region().size().end(), send.region().size().begin(),
                                   send.region().size().end());
      if (like) {
        const v1::Move::Send other = *before;
        before->set_array(send.array());
        before->set_shard(send.shard());
        send.set_array(other.array());
        send.set_shard(other.shard());
        return true;
      }
      before = &send;
    }
  }
  return false;
}

// A mark of settled requests that is too far: the host forgets the names of commands that may come again.
bool ForgottenNames(v1::ToWorker* message) {
  for (const v1::Command& command : message->commands()) {
    if (!command.has_execute()) continue;
    auto& settled = *message->add_settled();
    settled.set_session(SessionOf(command.execute()).v);
    settled.set_up_to(UINT64_MAX);
    return true;
  }
  return false;
}

// A program that claims to take over an argument without permission.
bool WrongDonation(v1::FromWorker* message) {
  for (v1::Event& event : *message->mutable_events()) {
    if (!event.has_compiled() || event.compiled().parameters().empty() || !event.compiled().donated_inputs().empty()) continue;
    event.mutable_compiled()->add_donated_inputs(0);
    return true;
  }
  return false;
}

// A completion that is not counted.
bool ForgottenCompletion(v1::FromWorker* message) {
  for (v1::Event& event : *message->mutable_events()) {
    if (!event.has_done() || event.done().ok().empty()) continue;
    v1::Done& done = *event.mutable_done();
    if (done.device_microseconds_size() == done.ok_size()) done.mutable_device_microseconds()->RemoveLast();
    done.mutable_ok()->RemoveLast();
    return true;
  }
  return false;
}

// A worker that makes its connection again, and claims one received frame too many.
bool SkippedFrame(v1::FromWorker* message) {
  for (v1::Event& event : *message->mutable_events()) {
    if (!event.has_resume()) continue;
    v1::ReceivedFrames& received = *event.mutable_resume()->mutable_received();
    received.set_urgent(received.urgent() + 1);
    return true;
  }
  return false;
}

// A worker whose report of the arrays that it has kept for the next controller is cut short.
bool ShortReport(v1::FromWorker* message) {
  for (v1::Event& event : *message->mutable_events()) {
    if (!event.has_holdings() || event.holdings().arrays().empty()) continue;
    v1::Holdings& report = *event.mutable_holdings();
    const int half = report.arrays_size() / 2;
    report.mutable_arrays()->Truncate(half);
    report.mutable_shape_of_array()->Truncate(half);
    return true;
  }
  return false;
}

// A name that another array has, too.
bool WrongName(v1::ControllerFrame* message) {
  for (v1::SessionEvent& event : *message->mutable_events()) {
    if (event.settled().names_size() < 4) continue;
    auto& names = *event.mutable_settled()->mutable_names();
    names.Set(1, names.Get(3));
    return true;
  }
  return false;
}

bool (*ToClient(Bug bug))(v1::ControllerFrame*) { return bug == Bug::kWrongName ? WrongName : nullptr; }

bool (*OfController(Bug bug))(v1::ToWorker*) {
  switch (bug) {
    case Bug::kWrongOrder:
      return WrongOrder;
    case Bug::kFreedEarly:
      return FreedEarly;
    case Bug::kForgottenRelease:
      return ForgottenRelease;
    case Bug::kWrongPlan:
      return WrongPlan;
    case Bug::kForgottenNames:
      return ForgottenNames;
    default:
      return nullptr;
  }
}

bool (*OfWorker(Bug bug))(v1::FromWorker*) {
  switch (bug) {
    case Bug::kWrongDonation:
      return WrongDonation;
    case Bug::kForgottenCompletion:
      return ForgottenCompletion;
    case Bug::kSkippedFrame:
      return SkippedFrame;
    case Bug::kShortReport:
      return ShortReport;
    default:
      return nullptr;
  }
}

template <typename Message>
std::optional<std::string> Spoiled(bool (*spoil)(Message*), absl::string_view header) {
  Message message;
  if (spoil == nullptr || !message.ParseFromArray(header.data(), static_cast<int>(header.size())) || !spoil(&message)) {
    return std::nullopt;
  }
  return message.SerializeAsString();
}

}  // namespace

bool IsMistake(Bug bug) { return OfController(bug) != nullptr || OfWorker(bug) != nullptr || ToClient(bug) != nullptr; }

std::optional<std::string> Mistaken(Bug bug, Way way, absl::string_view header) {
  switch (way) {
    case Way::kToWorker:
      return Spoiled(OfController(bug), header);
    case Way::kFromWorker:
      return Spoiled(OfWorker(bug), header);
    case Way::kToClient:
      return Spoiled(ToClient(bug), header);
  }
  return std::nullopt;
}

}  // namespace pw::sim
