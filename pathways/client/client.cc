#include "pathways/client/client.h"

#include <atomic>
#include <numeric>
#include <utility>

#include "pathways/base/await.h"
#include "pathways/base/clock.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/client/remote_session.h"
#include "pathways/net/asio_transport.h"

namespace pw::client {
namespace {

using session::Handle;

// Returns a session's callback that sets a promise.
template <class T>
session::ResultCallback<T> Fulfil(Promise<T> promise) {
  return [promise = std::move(promise)](absl::StatusOr<T> value) mutable { promise.Set(std::move(value)); };
}

session::StatusCallback FulfilUnit(Promise<Unit> promise) {
  return [promise = std::move(promise)](absl::Status status) mutable {
    promise.Set(status.ok() ? absl::StatusOr<Unit>(Unit()) : status);
  };
}

std::vector<Handle> HandlesOf(absl::Span<const Array* const> arrays) {
  std::vector<Handle> handles;
  handles.reserve(arrays.size());
  for (const Array* array : arrays) handles.push_back(array->handle());
  return handles;
}

}  // namespace

// Destroyed in reverse order: the network before the objects that its callbacks post to.
struct Client::State {
  explicit State(std::shared_ptr<net::Tls> tls) : transport({.tls = std::move(tls)}) {}
  SteadyClock clock;
  ThreadPool executor{"pw-client", 1};
  Strand strand{&executor};
  net::AsioTransport transport;
  TimerQueue timers{&clock};
  std::atomic<Handle> next_handle = 1;
  std::shared_ptr<RemoteSession> session;  // used on the strand
  std::shared_ptr<const session::ClusterInfo> cluster;

  void Post(absl::AnyInvocable<void(RemoteSession&) &&> task) {
    strand.Post([session = session.get(), task = std::move(task)]() mutable { std::move(task)(*session); });
  }
};

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  Promise<Unit> closed;
  const Future<Unit> done = closed.future();
  state_->strand.Post([state = state_.get(), closed = std::move(closed)]() mutable {
    state->session = nullptr;
    closed.Set(Unit());
  });
  Await(done).status().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const Options& options) {
  PW_ASSIGN_OR_RETURN(const identity::Credentials credentials, identity::CredentialsFor(options.controller, options.credentials));
  std::unique_ptr<Client> client(new Client(std::make_unique<State>(credentials.tls)));
  State* state = client->state_.get();
  Promise<Unit> opened;
  const Future<Unit> done = opened.future();
  state->strand.Post([state, options, token = credentials.token, opened = std::move(opened)]() mutable {
    Link::Options link;
    link.controller = options.controller;
    link.token = token;
    link.description = options.description;
    link.patience = options.timeout;
    link.absence = options.absence;
    link.remedy = options.remedy;
    state->session = RemoteSession::Open(std::move(link), {&state->transport, &state->strand, &state->timers, &state->clock},
                                         FulfilUnit(std::move(opened)));
  });
  if (absl::Status status = Await(done).status(); !status.ok()) return status;
  state->cluster = state->session->welcome().cluster;  // written before the promise was set
  return client;
}

const session::ClusterInfo& Client::cluster() const { return *state_->cluster; }

SessionId Client::session_id() const { return state_->session->welcome().id; }

Handle Client::NewHandle() { return state_->next_handle.fetch_add(1, std::memory_order_relaxed); }

Future<Executable> Client::Compile(session::CompileRequest request) {
  Promise<Executable> promise;
  const Future<Executable> future = promise.future();
  state_->Post([request = std::move(request), done = Fulfil(std::move(promise))](RemoteSession& session) mutable {
    session.Compile(std::move(request), std::move(done));
  });
  return future;
}

Array Client::Put(const buffers::ArraySpec& spec, Bytes data) {
  const Handle handle = NewHandle();
  state_->Post([handle, spec, data = std::move(data)](RemoteSession& session) mutable {
    session::HostShard source{handle, {spec.dtype, spec.dims, std::nullopt}, {}};
    source.shards.resize(spec.sharding.num_shards());
    std::iota(source.shards.begin(), source.shards.end(), 0);
    session.MakeArray(handle, spec, {std::move(source)}).IgnoreError();  // the array holds the error
    session.StoreHostBuffer(handle, std::move(data)).IgnoreError();
  });
  return Array(this, handle);
}

Array Client::PutError(const buffers::ArraySpec& spec, absl::Status error) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), spec, error = std::move(error)](RemoteSession& session) mutable {
    session.MakeErrorArray(handle, spec, std::move(error)).IgnoreError();
  });
  return result;
}

std::vector<Array> Client::Execute(const Executable& executable, absl::Span<const Array* const> args) {
  return Execute(executable, args, RunOptions()).results;
}

Run Client::Execute(const Executable& executable, absl::Span<const Array* const> args, RunOptions options) {
  Run run;
  session::ExecuteRequest request;
  request.executable = executable->handle;
  request.args = HandlesOf(args);
  request.results.reserve(executable->output_specs.size());
  run.results.reserve(executable->output_specs.size());
  for (size_t i = 0; i < executable->output_specs.size(); ++i) {
    run.results.push_back(NewArray());
    request.results.push_back(run.results.back().handle());
  }
  request.launch_id = options.launch_id;
  request.non_donatable = std::move(options.non_donatable);
  request.devices = std::move(options.devices);
  if (!options.end) {
    state_->Post([request = std::move(request)](RemoteSession& session) { session.Execute(request).status().IgnoreError(); });
    return run;
  }
  request.status = NewHandle();
  Promise<Unit> ended;
  run.end = ended.future();
  state_->Post([request = std::move(request), ended = std::move(ended)](RemoteSession& session) mutable {
    session.Execute(request).status().IgnoreError();
    session.FetchExecuteResult(request.status, [ended = std::move(ended)](absl::StatusOr<session::RunResult> result) mutable {
      ended.Set(result.ok() ? absl::StatusOr<Unit>(Unit()) : result.status());
    });
  });
  return run;
}

void Client::Drop(const Executable& executable) {
  state_->Post([handle = executable->handle](RemoteSession& session) { session.DestructExecutable(handle).IgnoreError(); });
}

Future<session::CostAnalysis> Client::Costs(const Executable& executable) {
  Promise<session::CostAnalysis> promise;
  const Future<session::CostAnalysis> future = promise.future();
  state_->Post([handle = executable->handle, done = Fulfil(std::move(promise))](RemoteSession& session) mutable {
    session.GetCostAnalysis(handle, std::move(done));
  });
  return future;
}

Array Client::Copy(const Array& array, std::vector<DeviceId> devices, std::string memory_kind) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), from = array.handle(), devices = std::move(devices),
                kind = std::move(memory_kind)](RemoteSession& session) mutable {
    session.Copy({handle}, {from}, std::move(devices), std::move(kind), session::CopySemantics::kAlwaysCopy).IgnoreError();
  });
  return result;
}

Array Client::Assemble(const buffers::ArraySpec& spec, absl::Span<const Array* const> singles) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), spec, from = HandlesOf(singles)](RemoteSession& session) {
    session.Assemble(handle, spec, from, session::CopySemantics::kReuseInput).IgnoreError();
  });
  return result;
}

std::vector<Array> Client::Disassemble(const Array& array, int num_shards) {
  std::vector<Array> results;
  std::vector<Handle> handles;
  for (int i = 0; i < num_shards; ++i) {
    results.push_back(NewArray());
    handles.push_back(results.back().handle());
  }
  state_->Post([handles = std::move(handles), from = array.handle()](RemoteSession& session) {
    session.Disassemble(handles, from, session::CopySemantics::kReuseInput).IgnoreError();
  });
  return results;
}

Future<Bytes> Client::Fetch(const Array& array, std::optional<buffers::Dims> byte_strides) {
  Promise<Bytes> promise;
  const Future<Bytes> future = promise.future();
  state_->Post([array = array.handle(), buffer = NewHandle(), strides = std::move(byte_strides),
                promise = std::move(promise)](RemoteSession& session) mutable {
    session.CopyToHostBuffer(array, buffer, std::move(strides), [](absl::Status) {});
    session.LookupHostBuffer(buffer, Fulfil(std::move(promise)));
    session.DeleteHostBuffer(buffer).IgnoreError();
  });
  return future;
}

Future<Unit> Client::Ready(const Array& array) {
  Promise<Unit> promise;
  const Future<Unit> future = promise.future();
  state_->Post([array = array.handle(), promise = std::move(promise)](RemoteSession& session) mutable {
    session.WhenReady({array}, FulfilUnit(std::move(promise)));
  });
  return future;
}

void Client::SetHostCalls(std::shared_ptr<session::HostCallHandler> handler) {
  state_->Post([handler = std::move(handler)](RemoteSession& session) mutable { session.SetHostCalls(std::move(handler)); });
}

void Client::Post(absl::AnyInvocable<void() &&> task) { state_->strand.Post(std::move(task)); }

void Client::Drop(Handle array) {
  state_->Post([array](RemoteSession& session) { session.Destruct({array}).IgnoreError(); });
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  if (handle_ != 0) client_->Drop(handle_);
  client_ = other.client_;
  handle_ = std::exchange(other.handle_, 0);
  return *this;
}

Array::~Array() {
  if (handle_ != 0) client_->Drop(handle_);
}

}  // namespace pw::client
