#include "pathways/client/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/frames.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::pathways::v1::SessionWelcome;

// An acknowledgement is sent after this many events or bytes, even without a request to carry it.
constexpr uint64_t kUntold = 64;
constexpr size_t kUntoldBytes = 64 << 10;
constexpr absl::Duration kPause = absl::Milliseconds(50);       // between two attempts to connect
constexpr absl::Duration kLongPause = absl::Milliseconds(250);  // if the controller has said to come again

}  // namespace

std::shared_ptr<Link> Link::Create(Options options, const Environment& environment, Owner* owner) {
  return std::shared_ptr<Link>(new Link(std::move(options), environment, owner));
}

Link::Link(Options options, const Environment& environment, Owner* owner)
    : options_(std::move(options)), environment_(environment), owner_(owner) {}

template <class F>
void Link::Post(F task) {
  environment_.strand->Post([weak = weak_from_this(), task = std::move(task)]() mutable {
    if (auto self = weak.lock()) std::move(task)(*self);
  });
}

void Link::Open() {
  unreachable_since_ = environment_.clock->Now();
  Connect();
}

void Link::Connect() {
  not_ready_ = absl::OkStatus();
  attempt_began_ = environment_.clock->Now();
  const absl::Duration left = unreachable_since_ + patience() - attempt_began_;
  environment_.transport->Connect(
      options_.controller, session_ == 0 ? left : std::min(left, attempts_.Next()),
      [weak = weak_from_this(), strand = environment_.strand](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        strand->Post([weak, connection = std::move(connection)]() mutable {
          if (auto self = weak.lock()) self->OnConnected(std::move(connection));
        });
      });
}

void Link::OnUnreachable(const absl::Status& reason) {
  const absl::Time now = environment_.clock->Now();
  refused_since_ = net::NobodyListens(reason) ? std::min(refused_since_, attempt_began_) : absl::InfiniteFuture();
  const bool gone =
      session_ != 0 && now - refused_since_ >= std::max(kRefusedFor, restorable() ? controller_grace_ : kRefusedFor);
  const bool retry = session_ != 0 || options_.retry;
  if (retry && !gone && now - unreachable_since_ < patience()) {
    const absl::Duration pause = std::exchange(waits_for_hosts_, false) ? kLongPause : kPause;
    return environment_.timers->After(pause, environment_.strand, [weak = weak_from_this()] {
      if (auto self = weak.lock(); self != nullptr && self->owner_ != nullptr) self->Connect();
    });
  }
  if (gone) return End(Lost(absl::StrCat("no process listens there any more: it has ended", WhyLost())));
  if (session_ != 0)
    return End(Lost(absl::StrCat(reason.message(), "; it could not be made again within ", absl::FormatDuration(patience()))));
  if (!not_ready_.ok()) return End(not_ready_);
  End(absl::UnavailableError(absl::StrCat("the controller at ", options_.controller, " cannot be reached: ", reason.message())));
}

void Link::OnConnected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  if (owner_ == nullptr) return;
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kController) : connection.status();
  if (absl::IsUnauthenticated(status) && session_ == 0) return End(status);
  if (!status.ok()) return OnUnreachable(status);
  auto post = [weak = weak_from_this(), strand = environment_.strand](absl::AnyInvocable<void(Connection::Owner&)&&> task) {
    strand->Post([weak, task = std::move(task)]() mutable {
      if (auto self = weak.lock()) std::move(task)(*self);
    });
  };
  connection_ = std::make_unique<Connection>(next_link_++, *std::move(connection), std::move(post));
  welcomed_ = false;
  connection_->Trust();
  connection_->Start();
  ClientFrame frame;
  auto& hello = *frame.mutable_hello();
  hello = options_.hello;
  hello.set_version(1);
  hello.set_description(options_.description);
  hello.set_token(options_.token.Now());
  hello.set_session(session_);
  hello.set_key(key_);
  hello.set_epoch(epoch_);
  hello.set_received(stream_.received());
  hello.set_own_end(connection_->connection().own_end());
  connection_->connection().Send(frame.SerializeAsString());
  if (session_ != 0) AwaitAnswer();
}

void Link::AwaitAnswer() {
  environment_.timers->After(kAnswerTime, environment_.strand, [weak = weak_from_this(), link = connection_->id()] {
    auto self = weak.lock();
    if (self == nullptr || self->connection_ == nullptr || self->connection_->id() != link || self->welcomed_) return;
    self->connection_->connection().Close(
        absl::UnavailableError(absl::StrCat("nobody has answered there for ", absl::FormatDuration(kAnswerTime))));
  });
}

void Link::OnFrame(session::LinkId link, ControllerFrame frame, std::vector<Bytes> payloads, size_t bytes) {
  if (owner_ == nullptr || connection_ == nullptr || connection_->id() != link) return;
  if (frame.has_ended()) {
    const absl::Status end = session::StatusFrom(frame.ended());
    if (away() && (absl::IsResourceExhausted(end) || absl::IsDeadlineExceeded(end))) {  // of this connection, which closes
      waits_for_hosts_ = absl::IsResourceExhausted(end);
      return;
    }
    if (session_ == 0 && absl::IsUnavailable(end)) return OnNotReady(end);
    return End(Explained(end));
  }
  if (absl::Status status = Take(frame, std::move(payloads), bytes); !status.ok()) {
    End(absl::InternalError(
        absl::StrCat("the controller at ", options_.controller, " breaks the session protocol: ", status.message())));
  }
}

// A controller whose hosts are still joining refuses to open sessions.
void Link::OnNotReady(const absl::Status& why) {
  not_ready_ = why;
  waits_for_hosts_ = true;
  if (options_.retry && options_.say != nullptr && !said_not_ready_ && environment_.clock->Now() - unreachable_since_ >= kQuietTime) {
    said_not_ready_ = true;
    options_.say(absl::StrCat("waiting for the Pathways cluster at ", options_.controller, ", for at most ",
                              absl::FormatDuration(options_.patience), ": ", why.message()));
  }
  connection_->connection().Close(why);
}

absl::Status Link::Take(ControllerFrame& frame, std::vector<Bytes> payloads, size_t bytes) {
  if (frame.has_welcome()) return TakeWelcome(frame.welcome());
  if (!frame.notice().empty() && session_ == 0) {
    unreachable_since_ = environment_.clock->Now();  // should the connection break after hours
    if (options_.say != nullptr) options_.say(frame.notice());
    return absl::OkStatus();
  }
  if (frame.restore_wanted()) return Restore();
  if (!welcomed_) return absl::InvalidArgumentError("it sent events before its welcome");
  if (!frame.stopping().empty()) return TakeStopping(frame);
  PW_RETURN_IF_ERROR(Keep([&](auto* taken) { return stream_.Acknowledge(frame.ack(), taken); }));
  if (stream_.has_unsent()) PostFlush();  // the window may have been full
  owner_->OnAcknowledged();
  if (frame.events().empty()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const size_t known, stream_.Receive(frame.first(), frame.events_size()));
  const auto self = shared_from_this();
  for (size_t i = known; i < payloads.size() && owner_ != nullptr; ++i)
    owner_->OnEvent(std::move(*frame.mutable_events(static_cast<int>(i))), std::move(payloads[i]));
  untold_bytes_ += bytes;
  if (stream_.received() - told_ >= kUntold || untold_bytes_ >= kUntoldBytes || !stopping_.empty()) PostFlush();
  return absl::OkStatus();
}

absl::Status Link::TakeStopping(const ControllerFrame& frame) {
  PW_RETURN_IF_ERROR(Keep([&](auto* taken) { return stream_.Acknowledge(frame.ack(), taken); }));
  stopping_ = frame.stopping();
  PostFlush();  // acknowledges what has come
  if (may_return() && options_.say != nullptr) {
    options_.say(absl::StrCat("the Pathways controller at ", options_.controller, " stops (", stopping_,
                              "). Calls wait until another one is there; hosts keep this program's arrays for ",
                              absl::FormatDuration(controller_grace_)));
  }
  owner_->OnAcknowledged();
  return absl::OkStatus();
}

// Acknowledges requests, and keeps those that may have to be carried out again.
absl::Status Link::Keep(absl::FunctionRef<absl::Status(std::deque<net::ResumableStream::Message>*)> acknowledge) {
  if (!restorable()) return acknowledge(nullptr);
  const uint64_t first = stream_.acknowledged() + 1;
  std::deque<net::ResumableStream::Message> taken;
  PW_RETURN_IF_ERROR(acknowledge(&taken));
  const bool complete = kept_.lost() == 0;
  if (!taken.empty()) kept_.Keep(first, std::move(taken));
  if (complete && kept_.lost() > 0 && options_.say != nullptr) {
    options_.say(absl::StrCat("this program has requests of more than ", KeptRequests::kMostBytes >> 20,
                              " MiB under way. Until they are done, the program would end with the Pathways controller at ",
                              options_.controller, ", and lose its arrays, even if another controller took its place"));
  }
  return absl::OkStatus();
}

void Link::SetNotRestorable(const std::string& why) {
  if (!not_restorable_.empty()) return;
  not_restorable_ = why;
  kept_ = KeptRequests();
}

std::string Link::WhyLost() const {
  const std::string obstacle = not_restorable_.empty() && owner_ != nullptr ? owner_->Obstacle() : not_restorable_;
  if (controller_grace_ <= absl::ZeroDuration() || epoch_ == 0) return "";
  if (obstacle.empty()) return absl::StrCat(", and no other has come within ", absl::FormatDuration(controller_grace_));
  return absl::StrCat("; another controller could not go on with this program, because ", obstacle);
}

absl::Status Link::Restore() {
  if (session_ == 0 || welcomed_) return absl::InvalidArgumentError("it wants to restore a session that it has");
  const std::string obstacle = not_restorable_.empty() ? owner_->Obstacle() : not_restorable_;
  if (!obstacle.empty()) {
    End(Lost(absl::StrCat(
        "the controller has ended, and the one that has taken its place cannot go on with this program, because ", obstacle)));
    return absl::OkStatus();
  }
  for (RestorePart& part : owner_->OnRestoreWanted())
    connection_->connection().Send(part.frame.SerializeAsString(), std::move(part.payload), net::Lane::kUrgent);
  return absl::OkStatus();
}

void Link::TakeLife(const SessionWelcome& welcome) {
  key_ = welcome.key();
  grace_ = absl::Seconds(std::clamp(welcome.grace_seconds(), 0.0, 1e9));
  epoch_ = welcome.epoch();
  controller_grace_ =
      epoch_ == 0 ? absl::ZeroDuration() : absl::Seconds(std::clamp(welcome.controller_grace_seconds(), 0.0, 1e9));
}

// Another controller has the session's requests up to `received`, and counts its own events from 1.
void Link::TakeWelcomeBack(const SessionWelcome& welcome) {
  TakeLife(welcome);
  told_ = 0;
  untold_bytes_ = 0;
  PW_LOG_INFO << "another controller at " << options_.controller << " goes on with this session, after "
              << absl::FormatDuration(environment_.clock->Now() - unreachable_since_);
  owner_->OnRestored();
}

absl::Status Link::TakeWelcome(const SessionWelcome& welcome) {
  if (welcomed_) return absl::InvalidArgumentError("it sent a second welcome");
  if (session_ != 0 && welcome.session() != session_) return absl::InvalidArgumentError("its welcome names another session");
  const bool another = session_ != 0 && welcome.epoch() != epoch_;
  if (another) {
    PW_RETURN_IF_ERROR(stream_.CheckResume(welcome.received()));
    PW_RETURN_IF_ERROR(Keep([&](auto* taken) { return stream_.Restart(welcome.received(), taken), absl::OkStatus(); }));
  } else {
    PW_RETURN_IF_ERROR(Keep([&](auto* taken) { return stream_.Resume(welcome.received(), taken); }));
  }
  welcomed_ = true;
  stopping_.clear();
  refused_since_ = absl::InfiniteFuture();
  attempts_ = {};
  if (std::exchange(session_, welcome.session()) == 0) {
    TakeLife(welcome);
    owner_->OnWelcome(welcome);
  } else if (another) {
    TakeWelcomeBack(welcome);
  } else {
    PW_LOG_DEBUG << "the connection to the controller at " << options_.controller << " is back after "
                 << absl::FormatDuration(environment_.clock->Now() - unreachable_since_);
  }
  owner_->OnAcknowledged();
  if (stream_.has_unsent()) PostFlush();
  return absl::OkStatus();
}

void Link::OnLinkClosed(session::LinkId link, const absl::Status& reason) {
  if (connection_ == nullptr || connection_->id() != link) return;
  const net::Counters counters = connection_->connection().counters();
  earlier_.frames_sent += counters.frames_sent;
  earlier_.bytes_sent += counters.bytes_sent;
  const bool breakable = connection_->connection().breakable();
  connection_ = nullptr;
  const bool lost = std::exchange(welcomed_, false);
  if (auto closed = std::exchange(closed_, nullptr)) std::move(closed)();
  if (owner_ == nullptr) return;
  if (session_ == 0) {
    if (!not_ready_.ok()) return OnUnreachable(not_ready_);
    const std::string why = reason.message().empty() ? "" : absl::StrCat(" (", reason.message(), ")");
    return OnUnreachable(absl::UnavailableError(
        absl::StrCat("the process that listens there closed the connection", why, ": is it a controller?")));
  }
  if (!lost) return OnUnreachable(reason);
  const bool over = !breakable || grace_ <= absl::ZeroDuration() || !stopping_.empty();
  const std::string why = stopping_.empty() ? std::string(reason.message()) : absl::StrCat("the controller stops: ", stopping_);
  if (over && !may_return()) return End(Lost(absl::StrCat(why, WhyLost())));
  OnLost(reason);
}

void Link::OnLost(const absl::Status& reason) {
  PW_LOG_DEBUG << "the connection to the controller at " << options_.controller
               << " is lost, and made again: " << reason.message();
  unreachable_since_ = environment_.clock->Now();
  if (!stopping_.empty()) return Connect();  // the user has heard of it
  environment_.timers->After(kQuietTime, environment_.strand, [weak = weak_from_this(), loss = ++losses_, reason] {
    auto self = weak.lock();
    if (self != nullptr && self->owner_ != nullptr && self->away() && self->losses_ == loss) self->SayLost(reason);
  });
  Connect();
}

void Link::SayLost(const absl::Status& reason) const {
  if (options_.say == nullptr) return;
  options_.say(absl::StrCat("the connection to the Pathways controller at ", options_.controller, " is lost (", reason.message(),
                            "). Calls wait until it is back; the controller keeps this program's arrays for ",
                            absl::FormatDuration(grace_),
                            restorable() ? absl::StrCat(", and if it has ended, hosts keep them for another controller for ",
                                                        absl::FormatDuration(controller_grace_))
                                         : ""));
}

absl::Status Link::Lost(absl::string_view reason) const {
  return absl::UnavailableError(absl::StrCat("the connection to the Pathways controller at ", options_.controller, " was lost",
                                             reason.empty() ? "" : absl::StrCat(" (", reason, ")"), ". ", options_.remedy));
}

absl::Status Link::Explained(const absl::Status& end) const {
  if (session_ == 0 || end.ok()) return end;
  return absl::Status(end.code(), absl::StrCat("the Pathways controller at ", options_.controller,
                                               " ended this session: ", end.message(), ". ", options_.remedy));
}

uint64_t Link::Send(::pathways::v1::SessionRequest request, std::vector<Bytes> payload) {
  if (owner_ == nullptr) return 0;  // the session has ended
  const uint64_t number = stream_.Append(session::Pack(std::move(request), std::move(payload)));
  if (welcomed_) PostFlush();
  return number;
}

uint64_t Link::sent(uint64_t net::Counters::* count) const {
  return earlier_.*count + (connection_ == nullptr ? 0 : connection_->connection().counters().*count);
}

void Link::PostFlush() {
  if (std::exchange(flush_posted_, true)) return;
  Post([](Link& self) { self.Flush(); });
}

void Link::Flush() {
  flush_posted_ = false;
  if (connection_ == nullptr || !welcomed_) return;
  const uint64_t received = stream_.received();
  const size_t window = stopping_.empty() ? session::kRequestWindowBytes : 0;  // a controller that stops takes no requests
  session::SendBatches(stream_, {received, received != told_, window}, connection_->connection());
  told_ = received;
  untold_bytes_ = 0;
}

void Link::Close(absl::AnyInvocable<void() &&> closed) {
  const bool open = std::exchange(owner_, nullptr) != nullptr && connection_ != nullptr;
  if (!open) {
    if (closed != nullptr) std::move(closed)();
    return;
  }
  closed_ = std::move(closed);
  if (welcomed_) {
    Flush();
    ClientFrame frame;
    frame.set_ack(stream_.received());
    frame.set_goodbye(true);
    connection_->connection().Send(frame.SerializeAsString());
  }
  connection_->connection().Close(absl::OkStatus());
}

void Link::Break() {
  if (connection_ != nullptr) connection_->connection().Close(absl::UnavailableError("a test breaks it"));
}

void Link::End(const absl::Status& status) {
  if (Owner* owner = std::exchange(owner_, nullptr)) owner->OnEnded(status);
  if (connection_ != nullptr) connection_->connection().Close(absl::OkStatus());
}

}  // namespace pw::client
