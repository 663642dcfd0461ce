#include "pathways/dataflow/testing/transport_links.h"

#include "absl/strings/str_cat.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::dataflow {

struct TransportLinks::Outgoing : net::Connection::Handler {
  Outgoing(TransportLinks* links, HostId host, std::string address) : links(links), host(host), address(std::move(address)) {}

  // On a thread of the transport.
  void OnFrame(net::Frame) override {}  // peers send no frames in this direction
  void OnClosed(const absl::Status& reason) override {
    links->Post([links = links, host = host,
                 reason = absl::UnavailableError(absl::StrCat("the connection to ", ToString(host), " at ", address,
                                                              " broke: ", reason.message()))] { links->Lose(host, reason); });
  }

  TransportLinks* const links;
  const HostId host;
  const std::string address;
  bool connecting = false;
  std::deque<Queued> queue;  // until there is a connection
  std::unique_ptr<net::Connection> connection;
};

struct TransportLinks::Incoming : net::Connection::Handler {
  Incoming(TransportLinks* links, uint64_t id) : links(links), id(id) {}

  void OnFrame(net::Frame frame) override {
    auto shared = std::make_shared<net::Frame>(std::move(frame));
    links->Post([links = links, id = id, shared] { links->OnIncomingFrame(id, std::move(*shared)); });
  }
  void OnClosed(const absl::Status& reason) override {
    links->Post([links = links, id = id, reason] { links->OnIncomingClosed(id, reason); });
  }

  TransportLinks* const links;
  const uint64_t id;
  bool greeted = false;
  HostId from;
  std::unique_ptr<net::Connection> connection;
};

TransportLinks::TransportLinks(net::Transport* transport, Executor* strand, const Options& options)
    : transport_(transport), strand_(strand), options_(options) {}

TransportLinks::~TransportLinks() = default;

// On any thread; connections are destroyed before this object, and their handlers are not called afterwards.
void TransportLinks::Post(Task task) {
  strand_->Post([alive = std::weak_ptr<bool>(alive_), task = std::move(task)]() mutable {
    if (!alive.expired()) std::move(task)();
  });
}

void TransportLinks::Start(Handler* handler) { handler_ = handler; }

void TransportLinks::SetPeer(HostId host, std::string address) {
  if (host == options_.self || lost_.contains(host) || outgoing_.contains(host)) return;
  outgoing_.emplace(host, std::make_unique<Outgoing>(this, host, std::move(address)));
}

void TransportLinks::Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) {
    if (!lost_.contains(to)) LoseLater(to, absl::UnavailableError(absl::StrCat(ToString(to), " is not in the cluster")));
    return;
  }
  Outgoing& out = *it->second;
  if (out.connection != nullptr) return out.connection->Send(std::move(header), std::move(payload), lane);
  out.queue.push_back({std::move(header), std::move(payload), lane});
  Connect(to);
}

void TransportLinks::Connect(HostId to) {
  Outgoing& out = *outgoing_[to];
  if (out.connecting) return;
  out.connecting = true;
  // The callback comes on a thread of the transport, possibly after this object is gone.
  transport_->Connect(
      out.address, options_.connect_timeout,
      [this, strand = strand_, alive = std::weak_ptr<bool>(alive_), to](absl::StatusOr<std::unique_ptr<net::Connection>> c) {
        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(c));
        strand->Post([this, alive, to, shared] {
          if (!alive.expired()) Connected(to, std::move(*shared));
        });
      });
}

void TransportLinks::Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  Outgoing& out = *it->second;
  if (!connection.ok()) {
    return Lose(to, absl::UnavailableError(
                        absl::StrCat("cannot reach ", ToString(to), " at ", out.address, ": ", connection.status().message())));
  }
  out.connection = *std::move(connection);
  out.connection->Start(&out);
  ::pathways::v1::dataflow::Hello hello;
  hello.set_from_host(options_.self.v);
  hello.set_incarnation(options_.incarnation);
  // On the urgent lane, so that nothing can overtake it.
  out.connection->Send(hello.SerializeAsString(), net::Lane::kUrgent);
  for (Queued& frame : out.queue) out.connection->Send(std::move(frame.header), std::move(frame.payload), frame.lane);
  out.queue.clear();
}

void TransportLinks::Accept(std::unique_ptr<net::Connection> connection) {
  const uint64_t id = next_incoming_++;
  auto in = std::make_unique<Incoming>(this, id);
  in->connection = std::move(connection);
  Incoming* raw = in.get();
  incoming_[id] = std::move(in);
  raw->connection->Start(raw);
}

void TransportLinks::OnIncomingFrame(uint64_t id, net::Frame frame) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  Incoming* in = it->second.get();
  if (!in->greeted) {
    if (absl::Status status = Greet(in, frame.header); !status.ok()) in->connection->Close(status);
    return;
  }
  if (handler_ != nullptr && !lost_.contains(in->from)) handler_->OnFrame(in->from, std::move(frame));
}

absl::Status TransportLinks::Greet(Incoming* in, const std::string& header) {
  ::pathways::v1::dataflow::Hello hello;
  if (!hello.ParseFromString(header)) return absl::InvalidArgumentError("a peer must say hello first");
  if (hello.incarnation() != options_.incarnation)
    return absl::FailedPreconditionError("a host of another controller's life called; it must join again");
  if (HostId(hello.from_host()) == options_.self || lost_.contains(HostId(hello.from_host())))
    return absl::FailedPreconditionError("a host called by a number that is taken, or lost; it must join again");
  in->from = HostId(hello.from_host());
  in->greeted = true;
  return absl::OkStatus();
}

void TransportLinks::OnIncomingClosed(uint64_t id, const absl::Status& reason) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  const bool greeted = it->second->greeted;
  const HostId from = it->second->from;
  incoming_.erase(it);
  if (greeted)
    Lose(from, absl::UnavailableError(absl::StrCat("the connection from ", ToString(from), " broke: ", reason.message())));
}

void TransportLinks::Lose(HostId host, const absl::Status& reason) {
  if (!lost_.insert(host).second) return;
  outgoing_.erase(host);
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    it = it->second->greeted && it->second->from == host ? incoming_.erase(it) : std::next(it);
  }
  if (handler_ != nullptr) handler_->OnPeerLost(host, reason);
}

void TransportLinks::LoseLater(HostId host, const absl::Status& reason) {
  Post([this, host, reason] { Lose(host, reason); });
}

}  // namespace pw::dataflow
