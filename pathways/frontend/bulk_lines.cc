#include "pathways/frontend/bulk_lines.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/bulk/line.h"
#include "pathways/frontend/assembly.h"
#include "pathways/frontend/client_session.h"

namespace pw::frontend {
namespace {

using pathways::v1::BulkFrame;
constexpr size_t kMostStores = 256;  // under way on one line

// One line. Lives until its connection has closed.
class BulkLine final : public bulk::Line::Owner, public std::enable_shared_from_this<BulkLine> {
 public:
  BulkLine(std::shared_ptr<ServerState> server, std::unique_ptr<net::Connection> connection)
      : server_(std::move(server)), line_(std::move(connection), this) {}

  static void Start(std::shared_ptr<ServerState> server, std::unique_ptr<net::Connection> connection, const std::string& secret) {
    auto line = std::make_shared<BulkLine>(std::move(server), std::move(connection));
    line->self_ = line;
    line->line_.Start();
    BulkFrame greeting;
    greeting.mutable_greeting()->set_secret(secret);
    line->line_.Send(greeting);
  }

 private:
  struct Store {
    std::weak_ptr<ClientSession> session;
    uint64_t handle = 0;
    Assembly data;  // empty until it is admitted
    bool ready = false;
  };

  void OnBulkFrame(BulkFrame frame) override {
    server_->cluster->Post([self = shared_from_this(), frame = std::move(frame)] { self->Take(frame); });
  }
  void OnBulkClosed(const absl::Status& reason) override {
    server_->cluster->Post([self = shared_from_this(), reason] { self->End(reason); });
  }

  // What follows is the strand's.
  void Take(const BulkFrame& frame) {
    if (frame.has_fetch()) return StartFetch(frame.call(), frame.fetch());
    if (frame.has_store()) return StartStore(frame.call(), frame.store());
    if (frame.has_done()) return FinishStore(frame.call(), bulk::StatusOf(frame.done()));
    Refuse("a relay says neither ready nor anything else that this controller knows");
  }

  void StartFetch(uint64_t call, const BulkFrame::Fetch& fetch) {
    auto session = server_->sessions.Find(fetch.session());
    if (!session.ok()) return line_.SendDone(call, session.status());
    (*session)->LookupHostBuffer(fetch.handle(), [self = shared_from_this(), call](absl::StatusOr<Bytes> data) {
      if (data.ok()) self->line_.SendParts(call, *data);
      self->line_.SendDone(call, data.status());
    });
  }

  void StartStore(uint64_t call, const BulkFrame::Store& asked) {
    if (stores_.size() >= kMostStores || asked.bytes() > uint64_t{INT64_MAX}) return Refuse("too much is to be stored at a time");
    const auto [store, fresh] = stores_.try_emplace(call);
    if (!fresh) return Refuse("two stores have one number");
    auto session = server_->sessions.Find(asked.session());
    if (!session.ok()) return EndStore(call, session.status());
    store->second.session = *session;
    store->second.handle = asked.handle();
    (*session)->session().AnnounceHostBuffer(
        asked.handle(), static_cast<int64_t>(asked.bytes()),
        [self = shared_from_this(), call, asked](const absl::Status& admitted) { self->Admit(call, asked, admitted); });
  }

  void Admit(uint64_t call, const BulkFrame::Store& asked, absl::Status admitted) {
    const auto it = stores_.find(call);
    if (it == stores_.end()) {  // the line has broken meanwhile
      if (admitted.ok()) Forget(asked);
      return;
    }
    Store& store = it->second;
    if (admitted.ok()) {
      admitted = store.data.Allocate(&server_->shared, static_cast<int64_t>(asked.bytes()), asked.session());
      if (!admitted.ok()) Forget(asked);
    }
    if (absl::IsResourceExhausted(admitted)) {  // the array becomes the error, not the session (host_buffer_calls.cc)
      if (auto session = store.session.lock(); session != nullptr && session->open())
        session->session().FailHostBuffer(store.handle, admitted);
      return EndStore(call, absl::OkStatus());
    }
    if (!admitted.ok()) return EndStore(call, admitted);
    store.ready = true;
    line_.Expect(call, store.data.place(), store.data.size());
    BulkFrame ready;
    ready.set_call(call);
    ready.mutable_ready();
    line_.Send(ready);
  }

  // `status` not OK: the relay withdraws what it has sent.
  void FinishStore(uint64_t call, absl::Status status) {
    const auto it = stores_.find(call);
    if (it == stores_.end() || !it->second.ready) return Refuse("a store is done that is not under way");
    Store& store = it->second;
    status.Update(line_.Landed(call, store.data.size()));
    auto session = store.session.lock();
    if (session == nullptr || !session->open()) {
      status = absl::NotFoundError("the session has ended");
    } else if (status.ok()) {
      status = session->session().StoreHostBuffer(store.handle, std::move(store.data).Freeze());
    } else {
      session->session().ForgetHostBuffer(store.handle);
    }
    EndStore(call, status);
  }

  void EndStore(uint64_t call, const absl::Status& status) {
    stores_.erase(call);
    line_.SendDone(call, status);
  }

  void Forget(const BulkFrame::Store& asked) {
    if (auto session = server_->sessions.Find(asked.session()); session.ok())
      (*session)->session().ForgetHostBuffer(asked.handle());
  }

  void Refuse(const std::string& why) { line_.Close(absl::InvalidArgumentError(why)); }

  void End(const absl::Status& reason) {
    PW_LOG_INFO << "bulk line of " << line_.Describe() << "; closed: " << reason.message();
    for (auto& [call, store] : std::exchange(stores_, {})) {
      auto session = store.session.lock();
      if (store.ready && session != nullptr && session->open()) session->session().ForgetHostBuffer(store.handle);
    }
    self_ = nullptr;
  }

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<BulkLine> self_;
  absl::flat_hash_map<uint64_t, Store> stores_;
  bulk::Line line_;
};

std::string NewSecret() {
  const SessionTable::Draw draw = SessionTable::FromTheSystem();
  return absl::StrCat(absl::Hex(draw(), absl::kZeroPad16), absl::Hex(draw(), absl::kZeroPad16));
}

net::AsioOptions TransportOptions() {
  net::AsioOptions options;
  options.limits = bulk::LineLimits();
  return options;
}

}  // namespace

BulkLines::BulkLines() : transport_(TransportOptions()) {}

absl::StatusOr<std::unique_ptr<BulkLines>> BulkLines::Listen(const std::string& address, std::shared_ptr<ServerState> state) {
  std::unique_ptr<BulkLines> lines(new BulkLines());
  const std::string secret = NewSecret();
  PW_ASSIGN_OR_RETURN(lines->listener_, lines->transport_.Listen(address, [state = std::move(state),
                                                                           secret](std::unique_ptr<net::Connection> connection) {
    BulkLine::Start(state, std::move(connection), secret);
  }));
  const std::string& bound = lines->listener_->address();
  lines->announcement_ = absl::StrCat(bound.substr(bound.rfind(':') + 1), " ", secret);
  return lines;
}

}  // namespace pw::frontend
