#include "pathways/relay/relay.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "pathways/base/status_macros.h"
#include "pathways/bulk/shared_directory.h"

namespace pw::relay {
namespace {
// Host buffers pass in large messages: few frames instead of many, and enough of them on the way.
constexpr int kFrameBytes = 4 << 20;
constexpr int kLookaheadBytes = 8 << 20;
}  // namespace

std::shared_ptr<grpc::Channel> ControllerChannel(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetMaxSendMessageSize(-1);
  args.SetMaxReceiveMessageSize(-1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  args.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the user's http_proxy is not meant for the cluster
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // also the limit of one attempt to connect
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  constexpr int kPingMs = 10'000;  // the front end's server allows it (frontend/server.cc)
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  args.SetInt(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 15'000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(const std::string& listen, const std::string& controller,
                                                    const std::string& files, ControllerLine* line) {
  std::unique_ptr<Relay> relay(new Relay());
  if (!files.empty()) {
    PW_ASSIGN_OR_RETURN(relay->hub_.files.directory, bulk::OpenSharedDirectory(files));
  }
  relay->hub_.controller = controller;
  relay->hub_.line = line;
  relay->hub_.stub = std::make_unique<grpc::GenericStub>(ControllerChannel(controller));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &relay->port_);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port in use is an error
  builder.SetMaxSendMessageSize(-1);
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  builder.RegisterAsyncGenericService(&relay->hub_.service);
  relay->hub_.queue = builder.AddCompletionQueue();
  relay->server_ = builder.BuildAndStart();
  if (relay->server_ == nullptr || relay->port_ == 0) {
    relay->hub_.queue->Shutdown();
    relay->Drain();
    relay->server_ = nullptr;
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": choose another address or port 0 with --listen"));
  }
  Call::Await(&relay->hub_);
  relay->thread_.Post([relay = relay.get()] { relay->Drain(); });
  return relay;
}

Relay::~Relay() {
  if (server_ == nullptr) return;
  if (hub_.line != nullptr) hub_.line->Close();          // what waits for it goes the other way, which ends too
  server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));  // cancels every call, the waiting one included
  stop_.Set(hub_.queue.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), nullptr);
}

void Relay::Drain() {
  void* tag;
  bool ok, stopping = false;
  while (hub_.queue->Next(&tag, &ok)) {
    if (tag == nullptr) {
      stopping = true;
    } else {
      static_cast<Call::Event*>(tag)->Run(ok);
    }
    if (stopping && hub_.calls == 0) hub_.queue->Shutdown();
  }
}

}  // namespace pw::relay
