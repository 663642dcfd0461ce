#include "pathways/client/link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/frames.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::pathways::v1::SessionWelcome;

// After so many events, or bytes, an acknowledgement is sent even without a request to carry it.
constexpr uint64_t kUntold = 64;
constexpr size_t kUntoldBytes = 64 << 10;
constexpr absl::Duration kPause = absl::Milliseconds(50);  // between two attempts to connect

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
  const absl::Duration left = unreachable_since_ + patience() - environment_.clock->Now();
  environment_.transport->Connect(
      options_.controller, left,
      [weak = weak_from_this(), strand = environment_.strand](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        strand->Post([weak, connection = std::move(connection)]() mutable {
          if (auto self = weak.lock()) self->OnConnected(std::move(connection));
        });
      });
}

void Link::OnUnreachable(const absl::Status& reason) {
  const bool retry = session_ != 0 || options_.retry;
  if (retry && environment_.clock->Now() - unreachable_since_ < patience()) {
    return environment_.timers->After(kPause, environment_.strand, [weak = weak_from_this()] {
      if (auto self = weak.lock(); self != nullptr && self->owner_ != nullptr) self->Connect();
    });
  }
  if (session_ != 0) return End(Lost(reason.message()));
  End(absl::UnavailableError(absl::StrCat("the controller at ", options_.controller, " cannot be reached: ", reason.message())));
}

void Link::OnConnected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  if (owner_ == nullptr) return;
  if (absl::IsUnauthenticated(connection.status())) return End(connection.status());
  if (!connection.ok()) return OnUnreachable(connection.status());
  if (absl::Status status = net::CheckServer(**connection, net::PeerProof::kController); !status.ok()) return End(status);
  auto post = [weak = weak_from_this(), strand = environment_.strand](absl::AnyInvocable<void(Connection::Owner&) &&> task) {
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
  hello.set_token(options_.token);
  hello.set_session(session_);
  hello.set_key(key_);
  hello.set_received(stream_.received());
  connection_->connection().Send(frame.SerializeAsString());
}

void Link::OnFrame(session::LinkId link, ControllerFrame frame, std::vector<Bytes> payloads, size_t bytes) {
  if (owner_ == nullptr || connection_ == nullptr || connection_->id() != link) return;
  if (frame.has_ended()) return End(Explained(session::StatusFrom(frame.ended())));
  if (absl::Status status = Take(frame, std::move(payloads), bytes); !status.ok()) {
    End(absl::InternalError(absl::StrCat("the controller at ", options_.controller, " breaks the session protocol: ", status.message())));
  }
}

absl::Status Link::Take(ControllerFrame& frame, std::vector<Bytes> payloads, size_t bytes) {
  if (frame.has_welcome()) return TakeWelcome(frame.welcome());
  if (!welcomed_) return absl::InvalidArgumentError("it sent events before its welcome");
  PW_RETURN_IF_ERROR(stream_.Acknowledge(frame.ack()));
  if (stream_.has_unsent()) PostFlush();  // the window may have been full
  owner_->OnAcknowledged();
  if (frame.events().empty()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const size_t known, stream_.Receive(frame.first(), frame.events_size()));
  const auto self = shared_from_this();
  for (size_t i = known; i < payloads.size() && owner_ != nullptr; ++i)
    owner_->OnEvent(std::move(*frame.mutable_events(static_cast<int>(i))), std::move(payloads[i]));
  untold_bytes_ += bytes;
  if (stream_.received() - told_ >= kUntold || untold_bytes_ >= kUntoldBytes) PostFlush();
  return absl::OkStatus();
}

absl::Status Link::TakeWelcome(const SessionWelcome& welcome) {
  if (welcomed_) return absl::InvalidArgumentError("it sent a second welcome");
  if (session_ != 0 && welcome.session() != session_) return absl::InvalidArgumentError("its welcome names another session");
  PW_RETURN_IF_ERROR(stream_.Resume(welcome.received()));
  welcomed_ = true;
  if (std::exchange(session_, welcome.session()) == 0) {
    key_ = welcome.key();
    owner_->OnWelcome(welcome);
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
  connection_ = nullptr;
  welcomed_ = false;
  if (owner_ == nullptr) return;
  if (session_ == 0) {
    const std::string why = reason.message().empty() ? "" : absl::StrCat(" (", reason.message(), ")");
    return OnUnreachable(absl::UnavailableError(
        absl::StrCat("the process that listens there closed the connection", why, ": is it a controller?")));
  }
  if (options_.absence == absl::ZeroDuration()) return End(Lost(reason.message()));
  unreachable_since_ = environment_.clock->Now();
  Connect();
}

absl::Status Link::Lost(absl::string_view reason) const {
  return absl::UnavailableError(absl::StrCat("the connection to the Pathways controller at ", options_.controller, " was lost",
                                             reason.empty() ? "" : absl::StrCat(" (", reason, ")"), ". ", options_.remedy));
}

absl::Status Link::Explained(const absl::Status& end) const {
  if (session_ == 0 || end.ok()) return end;
  return absl::Status(end.code(), absl::StrCat("the Pathways controller at ", options_.controller, " ended this session: ",
                                               end.message(), ". ", options_.remedy));
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
  session::SendBatches(stream_, {received, received != told_, session::kRequestWindowBytes}, connection_->connection());
  told_ = received;
  untold_bytes_ = 0;
}

void Link::Close() {
  if (owner_ == nullptr) return;
  owner_ = nullptr;
  if (connection_ == nullptr) return;
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
