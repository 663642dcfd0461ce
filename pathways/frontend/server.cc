#include "pathways/frontend/server.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/frontend/grpc_util.h"
#include "pathways/frontend/host_buffer_calls.h"
#include "pathways/frontend/metrics_page.h"
#include "pathways/frontend/server_state.h"
#include "pathways/frontend/session_stream.h"
#include "pathways/frontend/shared_directory.h"
#include "pathways/frontend/translation/helper_translator.h"
#include "pathways/frontend/versions.h"

namespace pw::frontend {
namespace {

namespace proxy = xla::ifrt::proxy;
using proxy::GrpcIfrtService;

// Raw: methods with message streams take bytes, so that they can report invalid messages and copy data only once.
using ServiceBase = GrpcIfrtService::WithCallbackMethod_GetVersion<
    GrpcIfrtService::WithRawCallbackMethod_IfrtSession<GrpcIfrtService::WithRawCallbackMethod_HostBufferStore<
        GrpcIfrtService::WithRawCallbackMethod_HostBufferLookup<GrpcIfrtService::WithCallbackMethod_HostBufferDelete<
            GrpcIfrtService::WithCallbackMethod_HostBufferReadFromDisk<GrpcIfrtService::Service>>>>>>;

class Service final : public ServiceBase {
 public:
  explicit Service(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context, const proxy::GrpcGetVersionRequest* request,
                                       proxy::GrpcGetVersionResponse* response) override {
    grpc::ServerUnaryReactor* call = context->DefaultReactor();
    auto version = Negotiate(request->min_version(), request->max_version());
    if (version.ok()) *response->mutable_version() = *version;
    call->Finish(ToGrpc(version.status()));
    return call;
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* IfrtSession(grpc::CallbackServerContext* context) override {
    return SessionStream::Open(state_, context);
  }
  grpc::ServerReadReactor<grpc::ByteBuffer>* HostBufferStore(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response) override {
    return StoreHostBuffer(state_, context, response);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* HostBufferLookup(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request) override {
    return LookupHostBuffer(state_, context, request);
  }
  grpc::ServerUnaryReactor* HostBufferDelete(grpc::CallbackServerContext* context,
                                             const proxy::GrpcHostBufferDeleteRequest* request,
                                             proxy::GrpcHostBufferDeleteResponse*) override {
    return DeleteHostBuffer(state_, context, request);
  }
  grpc::ServerUnaryReactor* HostBufferReadFromDisk(grpc::CallbackServerContext* context,
                                                   const proxy::GrpcHostBufferReadFromDiskRequest* request,
                                                   proxy::GrpcHostBufferReadFromDiskResponse*) override {
    return ReadHostBufferFromDisk(state_, context, request);
  }

 private:
  const std::shared_ptr<ServerState> state_;
};

void SetChannelArguments(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port in use is an error, not a second listener
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
  const int interval = static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_interval));
  // Host buffers come in large messages: use few large frames, with enough of them in flight.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, interval);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, interval);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             1000);  // clients may ping an idle session too
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace

// The cluster's strand as an Executor, for timers.
class StrandOf final : public Executor {
 public:
  explicit StrandOf(controller::Cluster* cluster) : cluster_(cluster) {}
  void Post(Task task) override { cluster_->Post(std::move(task)); }

 private:
  controller::Cluster* const cluster_;
};

struct Server::Impl {
  Impl(const ServerOptions& options, controller::Cluster* cluster) : strand(cluster) {
    if (!options.translator.empty()) {
      HelperTranslator::Options helper_options;
      helper_options.command = options.translator;
      helper = std::make_unique<HelperTranslator>(std::move(helper_options), &timers, &strand);
    }
    auto compiler = std::make_shared<TranslatingCompiler>(TranslatingCompiler::Options(), helper.get(), &timers, &strand);
    state = std::make_shared<ServerState>(options, cluster, &files, &clock, std::move(compiler));
  }

  SteadyClock clock;
  ThreadPool files{"pw-files", 1};
  std::shared_ptr<ServerState> state;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> grpc;
  int port = 0;
  StrandOf strand;
  TimerQueue timers{&clock};
  std::unique_ptr<HelperTranslator> helper;
};

absl::Status ParseListenAddress(const std::string& address, const std::string& flag, ServerOptions* options) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &options->port) ||
      options->port < 0 || options->port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " wants HOST:PORT, not '", address, "'"));
  }
  options->host = address.substr(0, colon);
  return absl::OkStatus();
}

std::vector<std::string> TranslatorCommand(const std::string& python) {
  // -P: do not import from the folder in which this process was started.
  return {python, "-P", "-m", "pathways._translator"};
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, controller::Cluster* cluster) {
  auto impl = std::make_unique<Impl>(options, cluster);
  impl->state->shared.SweepEvery(net::SharedMemoryFactory::kSweepPeriod, &impl->timers, &impl->files);
  if (!options.shared_directory.empty()) {
    PW_ASSIGN_OR_RETURN(impl->state->shared_directory_fd, OpenSharedDirectory(options.shared_directory));
  }
  impl->service = std::make_unique<Service>(impl->state);
  grpc::ServerBuilder builder;
  SetChannelArguments(options, builder);
  const std::string address = absl::StrCat(options.host, ":", options.port);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(impl->service.get());
  impl->grpc = builder.BuildAndStart();
  if (impl->grpc == nullptr || impl->port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", address,
                                               " for clients: the port is in use, or the address is not this machine's; "
                                               "choose another with --listen, or stop what holds it"));
  }
  PW_LOG_INFO << "clients connect to " << options.host << ":" << impl->port;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() { Shutdown(); }

int Server::port() const { return impl_->port; }

absl::Status Server::AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> handler) {
  return impl_->state->sessions.AddCompanion(token, std::move(handler));
}

void Server::RemoveCompanion(const std::string& token) { impl_->state->sessions.RemoveCompanion(token); }

void Server::GetMetrics(absl::AnyInvocable<void(std::string) &&> done) {
  impl_->state->cluster->Post([state = impl_->state, done = std::move(done)]() mutable {
    std::move(done)(ToMetricsPage(state->sessions.size(), state->sessions.counts(), state->handlers));
  });
}

void Server::Shutdown() {
  if (impl_->grpc == nullptr) return;
  impl_->grpc->Shutdown(gpr_inf_past(GPR_CLOCK_REALTIME));  // no grace period: cancels calls in flight
  impl_->grpc->Wait();
  impl_->grpc.reset();
  std::promise<void> ended;  // set when all sessions have ended: their streams have posted that before
  impl_->state->cluster->Post([&ended] { ended.set_value(); });
  ended.get_future().wait();
  impl_->helper = nullptr;
  // Runs after the removal of folders of clients that have just left, which is queued already.
  impl_->files.Post([state = impl_->state] {
    if (state->shared_directory_fd >= 0) close(std::exchange(state->shared_directory_fd, -1));
  });
}

}  // namespace pw::frontend
