#include "pathways/net/in_memory/memory_transport.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/strand.h"
#include "pathways/net/address.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/in_memory/memory_connection.h"
#include "pathways/net/in_memory/memory_registry.h"

namespace pw::net {

// The state that a transport shares with its listeners and pending Connect calls.
struct MemoryTransport::Host {
  Executor* executor;
  Timers* timers;
  Limits limits;
  std::shared_ptr<MemoryRegistry> registry;

  std::mutex mu;
  std::vector<std::weak_ptr<MemoryEnd>> ends;  // guarded by mu

  std::shared_ptr<MemoryEnd> MakeEnd(std::string peer);
  void Connected(MemoryRegistry::Listening& listening, const std::string& address,
                 const std::shared_ptr<ConnectCallback>& on_done);
};

namespace {

// The listener's side of an accepted connection: callbacks on a strand, behind a gate.
class Accepting {
 public:
  Accepting(Executor* executor, Transport::AcceptCallback on_accept) : on_accept_(std::move(on_accept)), strand_(executor) {
    gate_.Attach(&on_accept_);
  }
  static void Accept(const std::shared_ptr<Accepting>& self, std::shared_ptr<MemoryEnd> end, PeerProof proof) {
    auto connection = std::make_unique<MemoryConnection>(std::move(end), proof);
    self->strand_.Post([self, connection = std::move(connection)]() mutable {
      self->gate_.Call([&](Transport::AcceptCallback* on_accept) { (*on_accept)(std::move(connection)); });
    });
  }
  void Stop() { gate_.Detach(strand_.RunsHere()); }

 private:
  Transport::AcceptCallback on_accept_;
  Strand strand_;
  HandlerGate<Transport::AcceptCallback> gate_;
};

class MemoryListener : public Listener {
 public:
  MemoryListener(std::shared_ptr<MemoryRegistry> registry, std::shared_ptr<MemoryRegistry::Listening> listening,
                 std::shared_ptr<Accepting> accepting, std::string address)
      : registry_(std::move(registry)),
        listening_(std::move(listening)),
        accepting_(std::move(accepting)),
        address_(std::move(address)) {}
  ~MemoryListener() override {
    registry_->StopListening(address_, listening_.get());
    accepting_->Stop();
  }
  const std::string& address() const override { return address_; }

 private:
  const std::shared_ptr<MemoryRegistry> registry_;
  const std::shared_ptr<MemoryRegistry::Listening> listening_;
  const std::shared_ptr<Accepting> accepting_;
  const std::string address_;
};

}  // namespace

MemoryNetwork::MemoryNetwork(Payloads payloads)
    : registry_(std::make_shared<MemoryRegistry>(payloads == Payloads::kHandedOver)) {}
MemoryNetwork::~MemoryNetwork() = default;
void MemoryNetwork::SetProofOfAccepted(PeerProof proof) { registry_->proof_of_accepted.store(proof); }
Counters MemoryNetwork::totals() const { return registry_->totals()->Read(); }

std::shared_ptr<MemoryEnd> MemoryTransport::Host::MakeEnd(std::string peer) {
  auto end = std::make_shared<MemoryEnd>(executor, std::move(peer), limits, registry->hands_over(), registry->totals());
  std::lock_guard<std::mutex> lock(mu);
  std::erase_if(ends, [](const std::weak_ptr<MemoryEnd>& e) { return e.expired(); });
  ends.push_back(end);
  return end;
}

void MemoryTransport::Host::Connected(MemoryRegistry::Listening& listening, const std::string& address,
                                      const std::shared_ptr<ConnectCallback>& on_done) {
  const std::shared_ptr<MemoryEnd> here = MakeEnd(address);
  const std::shared_ptr<MemoryEnd> there = listening.make_end(absl::StrCat("peer ", registry->NextName(), " of ", address));
  MemoryEnd::Join(here, there);
  listening.accept(there);
  executor->Post(
      [on_done, connection = std::make_unique<MemoryConnection>(here)]() mutable { (*on_done)(std::move(connection)); });
}

MemoryTransport::MemoryTransport(MemoryNetwork* network, Executor* executor, Timers* timers, const Limits& limits)
    : registry_(network->registry_), host_(std::make_shared<Host>()) {
  host_->executor = executor;
  host_->timers = timers;
  host_->limits = limits;
  host_->registry = registry_;
}

MemoryTransport::~MemoryTransport() {
  registry_->RemoveHost(host_.get(), absl::CancelledError("cannot connect: the transport was shut down"));
  std::vector<std::weak_ptr<MemoryEnd>> ends;
  {
    std::lock_guard<std::mutex> lock(host_->mu);
    ends.swap(host_->ends);
  }
  for (const auto& weak : ends) {
    const std::shared_ptr<MemoryEnd> end = weak.lock();
    if (end == nullptr) continue;
    end->Close(absl::CancelledError(absl::StrCat("the transport of the connection to ", end->peer(), " was shut down")));
  }
}

absl::StatusOr<std::unique_ptr<Listener>> MemoryTransport::Listen(const std::string& address, AcceptCallback on_accept) {
  PW_ASSIGN_OR_RETURN(const Address where, ParseAddress(address));
  auto accepting = std::make_shared<Accepting>(host_->executor, std::move(on_accept));
  auto listening = std::make_shared<MemoryRegistry::Listening>();
  listening->owner = host_.get();
  listening->make_end = [host = host_](std::string peer) { return host->MakeEnd(std::move(peer)); };
  listening->accept = [accepting, registry = registry_](std::shared_ptr<MemoryEnd> end) {
    Accepting::Accept(accepting, std::move(end), registry->proof_of_accepted.load());
  };
  PW_ASSIGN_OR_RETURN(std::string real, registry_->Listen(where, listening));
  return std::make_unique<MemoryListener>(registry_, std::move(listening), std::move(accepting), std::move(real));
}

void MemoryTransport::Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) {
  auto shared_done = std::make_shared<ConnectCallback>(std::move(on_done));
  const absl::StatusOr<Address> where = ParseAddress(address);
  if (!where.ok()) {
    host_->executor->Post([shared_done, status = where.status()] { (*shared_done)(status); });
    return;
  }
  const std::string name = ToString(*where);
  const uint64_t waiter = registry_->WaitFor(name, host_.get(), [host = host_, name, shared_done](const auto& listening) {
    if (listening.ok()) {
      host->Connected(**listening, name, shared_done);
    } else {
      host->executor->Post([shared_done, status = listening.status()] { (*shared_done)(status); });
    }
  });
  const absl::Status failure = MarkedNobodyListens(
      absl::UnavailableError(absl::StrCat("cannot connect to ", name, " within ", absl::FormatDuration(timeout),
                                          " (Connection refused); is a process listening there?")));
  if (host_->timers == nullptr) {
    registry_->GiveUp(waiter, failure);
  } else if (timeout != absl::InfiniteDuration()) {
    host_->timers->After(timeout, host_->executor,
                         [registry = registry_, waiter, failure] { registry->GiveUp(waiter, failure); });
  }
}

}  // namespace pw::net
