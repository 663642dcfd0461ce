#include "pathways/client/client.h"

#include <unistd.h>

#include <atomic>
#include <numeric>
#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/gathered.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/client/later_requests.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/sockets/longest_silence.h"
#include "pathways/session/questions.h"

namespace pw::client {
namespace {

using session::Handle;

// Limits of the arrays from host memory that wait for the next request: their number, and the size of each.
constexpr size_t kMostPutsLater = 64;
constexpr size_t kLargestPutLater = 16 << 10;

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

// The threads and the network of a session with a controller elsewhere. Destroyed in reverse order: the network before the objects that its
// callbacks post to.
struct Client::Way {
  Way(const Options& options, const identity::Credentials& credentials)
      : transport({.longest_silence = net::kLongestSilence, .tls = credentials.tls}),
        cluster({.controller = options.controller,
                 .patience = options.timeout,
                 .remedy = options.remedy,
                 .token = credentials.token,
                 .say = options.say,
                 .machine = ""},
                Link::Environment{&transport, &strand, &timers, &clock}) {}
  ~Way() { cluster.EndSessions(); }

  SteadyClock clock;
  ThreadPool executor{"pw-client", 1};
  Strand strand{&executor};
  net::AsioTransport transport;
  TimerQueue timers{&clock};
  RemoteCluster cluster;
};

struct Client::State {
  // Null: the cluster is in this process. Destroyed last.
  std::unique_ptr<Way> way;
  session::Cluster* cluster = nullptr;
  Timers* timers = nullptr;
  std::atomic<Handle> next_handle = 1;
  std::shared_ptr<session::Session> session;  // used on the strand
  SessionId id;
  std::shared_ptr<const session::ClusterInfo> info;
  std::shared_ptr<const session::SpareDevices> spares;
  const pid_t process = ::getpid();
  std::atomic<bool> full = false;  // the session keeps many requests that the controller has not taken
  const std::shared_ptr<Gathered<LaterRequests>> later = std::make_shared<Gathered<LaterRequests>>();

  // Post for requests whose answers no caller awaits, and of which there may be many: blocks while the session is full.
  template <class F>
  void PostPiece(F task) {
    if (way == nullptr) return Post(std::move(task));
    if (full.load(std::memory_order_relaxed) && !way->strand.RunsHere()) AwaitRoom();
    Post([this, task = std::move(task)](session::Session& session) mutable {
      std::move(task)(session);
      if (session.suspended()) full.store(true, std::memory_order_relaxed);
    });
  }
  void AwaitRoom() {
    Promise<Unit> room;
    const Future<Unit> there = room.future();
    Post([this, room = std::move(room)](session::Session& session) mutable {
      session.WhenResumed([this, room = std::move(room)]() mutable {
        full.store(false, std::memory_order_relaxed);
        room.Set(Unit());
      });
    });
    Await(there).status().IgnoreError();
  }
  // Calls `task`(session) on the strand, after the later requests (later_requests.h).
  template <class F>
  void Post(F task) {
    later->PassOn([&](LaterRequests before) {
      cluster->Post([session = session.get(), before = std::move(before), task = std::move(task)]() mutable {
        if (!before.empty()) before.Send(*session);
        std::move(task)(*session);
      });
    });
  }
  // Adds a later request, by `add`(LaterRequests&).
  template <class F>
  void PostLater(F add) {
    if (!later->Add(std::move(add))) return;
    timers->After(kSweep, Strand(), [weak = std::weak_ptr<session::Session>(session), later = later, strand = Strand()] {
      later->Sweep([&](LaterRequests left) {
        if (left.empty()) return;
        // Behind what is queued already: a task there may use an array that has been dropped since.
        strand->Post([weak, left = std::move(left)]() mutable {
          if (const auto session = weak.lock(); session != nullptr) left.Send(*session);
        });
      });
    });
  }
  // Returns the executor on which the session lives. It outlives the timers.
  Executor* Strand() { return way == nullptr ? static_cast<Executor*>(cluster) : &way->strand; }
  // Calls `ask`(session, done) on the strand; returns the future answer.
  template <class T, class F>
  Future<T> Ask(F ask) {
    Promise<T> promise;
    const Future<T> future = promise.future();
    Post([ask = std::move(ask), done = Fulfil(std::move(promise))](session::Session& session) mutable {
      ask(session, std::move(done));
    });
    return future;
  }
  // Keeps the session. Called on the strand, when it is open.
  void OnOpened(std::shared_ptr<session::Session> opened) {
    session = std::move(opened);
    id = session->id();
    info = cluster->info();
    spares = cluster->Spares(id);
  }
};

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  Promise<Unit> closed;
  const Future<Unit> done = closed.future();
  state_->cluster->Post([state = state_.get(), closed = std::move(closed)]() mutable {
    state->session = nullptr;
    closed.Set(Unit());
  });
  Await(done).status().IgnoreError();
}

void Client::Leave(absl::Duration limit) {
  if (state_->way == nullptr || ::getpid() != state_->process) return;  // a forked child lacks the threads, and is not the client
  Promise<Unit> left;
  const Future<Unit> done = left.future();
  state_->cluster->Post([way = state_->way.get(), id = state_->id, left = std::move(left)]() mutable {
    way->cluster.Leave(id, [left = std::move(left)]() mutable { left.Set(Unit()); });
  });
  AwaitFor(done, limit).status().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const Options& options) {
  PW_ASSIGN_OR_RETURN(const identity::Credentials credentials, identity::CredentialsFor(options.controller, options.credentials));
  auto state = std::make_unique<State>();
  state->way = std::make_unique<Way>(options, credentials);
  state->cluster = &state->way->cluster;
  state->timers = &state->way->timers;
  session::NewSession wanted{options.description, options.share};
  wanted.ends_on_hang = options.ends_on_hang;
  return Open(std::move(state), std::move(wanted));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Open(session::Cluster* cluster, Timers* timers, std::string description,
                                                     const gang::ShareChange& share) {
  auto state = std::make_unique<State>();
  state->cluster = cluster;
  state->timers = timers;
  return Open(std::move(state), {std::move(description), share});
}

absl::StatusOr<std::unique_ptr<Client>> Client::Open(std::unique_ptr<State> owned, session::NewSession wanted) {
  std::unique_ptr<Client> client(new Client(std::move(owned)));
  State* const state = client->state_.get();
  Promise<Unit> opened;
  const Future<Unit> done = opened.future();
  state->cluster->Post([state, wanted = std::move(wanted), opened = std::move(opened)]() mutable {
    auto done = [state, opened = std::move(opened)](absl::StatusOr<std::shared_ptr<session::Session>> session) mutable {
      if (!session.ok()) return opened.Set(session.status());
      state->OnOpened(*std::move(session));
      opened.Set(Unit());
    };
    state->cluster->OpenSession(std::move(wanted), std::move(done));
  });
  if (absl::Status status = Await(done).status(); !status.ok()) return status;
  return client;
}

const session::ClusterInfo& Client::cluster() const { return *state_->info; }

const session::SpareDevices& Client::spares() const { return *state_->spares; }

SessionId Client::session_id() const { return state_->id; }

Handle Client::NewHandle() { return state_->next_handle.fetch_add(1, std::memory_order_relaxed); }

Future<Executable> Client::Compile(session::CompileRequest request) {
  return state_->Ask<Executable>([request = std::move(request)](session::Session& session, auto done) mutable {
    session.Compile(std::move(request), std::move(done));
  });
}

Future<Executable> Client::CompileProgram(Bytes program) {
  return state_->Ask<Executable>([program = std::move(program)](session::Session& session, auto done) mutable {
    session.CompileProgram(std::move(program), std::move(done));
  });
}

Array Client::Put(const buffers::ArraySpec& spec, Bytes data) {
  const Handle handle = NewHandle();
  const bool small = data.size() <= kLargestPutLater;
  auto put = [handle, spec, data = std::move(data)](session::Session& session) mutable {
    session::HostShard source{handle, {spec.dtype, spec.dims, std::nullopt}, {}};
    source.shards.resize(spec.sharding.num_shards());
    std::iota(source.shards.begin(), source.shards.end(), 0);
    session.MakeArray(handle, spec, {std::move(source)}).IgnoreError();  // the array holds the error
    session.StoreHostBuffer(handle, std::move(data)).IgnoreError();
  };
  if (small) {
    bool many = false;
    state_->PostLater([&](LaterRequests& later) {
      later.puts.push_back(std::move(put));
      many = later.puts.size() >= kMostPutsLater;
    });
    if (many) state_->PostPiece([](session::Session&) {});
  } else {
    state_->PostPiece(std::move(put));
  }
  return Array(this, handle);
}

Array Client::PutError(const buffers::ArraySpec& spec, absl::Status error) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), spec, error = std::move(error)](session::Session& session) mutable {
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
  if (options.results.empty()) {
    run.results = Name(executable);
    for (const Array& result : run.results) request.results.push_back(result.handle());
  } else {
    request.results = std::move(options.results);
  }
  request.launch_id = options.launch_id;
  request.non_donatable = std::move(options.non_donatable);
  request.devices = std::move(options.devices);
  if (options.end) request.status = NewHandle();
  std::optional<Promise<Unit>> ended, ready;
  if (options.end) run.end = ended.emplace().future();
  if (options.ready) run.ready = ready.emplace().future();
  state_->PostPiece([request = std::move(request), ended = std::move(ended),
                     ready = std::move(ready)](session::Session& session) mutable {
    session.Execute(request).status().IgnoreError();
    // All results become ready together.
    if (ready.has_value()) session.WhenReady({request.results.front()}, FulfilUnit(*std::move(ready)));
    if (!ended.has_value()) return;
    session.FetchExecuteResult(request.status, [ended = *std::move(ended)](absl::StatusOr<session::RunResult> result) mutable {
      ended.Set(result.ok() ? absl::StatusOr<Unit>(Unit()) : result.status());
    });
  });
  return run;
}

std::vector<Array> Client::Name(const Executable& executable) {
  std::vector<Array> results;
  results.reserve(executable->output_specs.size());
  for (size_t i = 0; i < executable->output_specs.size(); ++i) results.push_back(NewArray());
  return results;
}

void Client::Drop(const Executable& executable) {
  state_->Post([handle = executable->handle](session::Session& session) { session.DestructExecutable(handle).IgnoreError(); });
}

Future<session::CostAnalysis> Client::Costs(const Executable& executable) {
  return state_->Ask<session::CostAnalysis>(
      [handle = executable->handle](session::Session& session, auto done) { session.GetCostAnalysis(handle, std::move(done)); });
}

Future<std::string> Client::Module(const Executable& executable) {
  return state_->Ask<std::string>(
      [handle = executable->handle](session::Session& session, auto done) { session.GetProgramModule(handle, std::move(done)); });
}

Array Client::Copy(const Array& array, std::vector<DeviceId> devices, std::string memory_kind) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), from = array.handle(), devices = std::move(devices),
                kind = std::move(memory_kind)](session::Session& session) mutable {
    session.Copy({handle}, {from}, std::move(devices), std::move(kind), session::CopySemantics::kAlwaysCopy).IgnoreError();
  });
  return result;
}

Array Client::Assemble(const buffers::ArraySpec& spec, absl::Span<const Array* const> singles) {
  Array result = NewArray();
  state_->Post([handle = result.handle(), spec, from = HandlesOf(singles)](session::Session& session) {
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
  state_->Post([handles = std::move(handles), from = array.handle()](session::Session& session) {
    session.Disassemble(handles, from, session::CopySemantics::kReuseInput).IgnoreError();
  });
  return results;
}

Future<Bytes> Client::Fetch(const Array& array, std::optional<buffers::Dims> byte_strides) {
  Promise<Bytes> promise;
  const Future<Bytes> future = promise.future();
  state_->Post([array = array.handle(), buffer = NewHandle(), strides = std::move(byte_strides),
                promise = std::move(promise)](session::Session& session) mutable {
    // A copy that is refused makes no buffer to look up. The reason comes first.
    auto unset = std::make_shared<std::optional<Promise<Bytes>>>(std::move(promise));
    session.CopyToHostBuffer(array, buffer, std::move(strides), [unset](absl::Status status) {
      if (!status.ok() && unset->has_value()) std::exchange(*unset, std::nullopt)->Set(std::move(status));
    });
    session.LookupHostBuffer(buffer, [unset](absl::StatusOr<Bytes> bytes) {
      if (unset->has_value()) std::exchange(*unset, std::nullopt)->Set(std::move(bytes));
    });
    session.DeleteHostBuffer(buffer).IgnoreError();
  });
  return future;
}

Future<Unit> Client::Ready(const Array& array) {
  Promise<Unit> promise;
  const Future<Unit> future = promise.future();
  state_->Post([array = array.handle(), promise = std::move(promise)](session::Session& session) mutable {
    session.WhenReady({array}, FulfilUnit(std::move(promise)));
  });
  return future;
}

Future<std::string> Client::Ask(std::string question) {
  Promise<std::string> promise;
  const Future<std::string> future = promise.future();
  const absl::StatusOr<JsonObject> object = ParseJson(question);
  if (!object.ok() || object->fields_size() != 1) {
    promise.Set(object.ok() ? absl::InvalidArgumentError("Bad request: a question has one key, its kind") : object.status());
    return future;
  }
  const std::string kind = object->fields().begin()->first;
  absl::StatusOr<JsonObject> request = ObjectField(*object, kind);
  if (!request.ok()) {
    promise.Set(request.status());
    return future;
  }
  state_->Post([state = state_.get(), kind, request = *std::move(request),
                done = Fulfil(std::move(promise))](session::Session& session) mutable {
    session::Ask(*state->cluster, session, kind, request, std::move(done));
  });
  return future;
}

void Client::SetHostCalls(std::shared_ptr<session::HostCallHandler> handler) {
  state_->Post([state = state_.get(), handler = std::move(handler)](session::Session&) mutable {
    state->cluster->SetHostCallHandler(state->id, std::move(handler));
  });
}

void Client::Post(absl::AnyInvocable<void() &&> task) { state_->cluster->Post(std::move(task)); }

void Client::Drop(Handle array) {
  state_->PostLater([array](LaterRequests& later) { later.drops.push_back(array); });
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
