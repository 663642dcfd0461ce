#include "pathways/worker/python/process.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/log.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::worker {
namespace {

constexpr size_t kOutputBytes = 16 << 10;

// The process does not inherit these: they concern the worker alone, or would choose another backend for jax.
const char* const kNotInherited[] = {"PATHWAYS_TOKEN_FILE", "PATHWAYS_ADDRESS", "PATHWAYS_LOCAL", "JAX_PLATFORMS", "XLA_FLAGS"};

// glibc asks for large pages for large arrays of the process: fresh pages of the usual size take longer than filling them.
const char* const kLargePages = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

}  // namespace

struct PythonProcess::Shared {
  Shared(std::vector<std::string> command, std::unique_ptr<PrivateFolder> temporary, Executor* strand, PythonProcess* process,
         Owner* owner)
      : child({std::move(command), 0, {std::begin(kNotInherited), std::end(kNotInherited)}, {kLargePages}}),
        temporary(std::move(temporary)),
        strand(strand),
        process(process),
        owner(owner) {}

  ChildProcess child;
  std::unique_ptr<PrivateFolder> temporary;  // of the thread that waits for the process
  Executor* const strand;
  std::atomic<bool> stopping = false;
  // Of the strand. Null once the process has been destroyed.
  PythonProcess* process;
  Owner* owner;
};

class PythonProcess::Incoming final : public net::FileSocket::Handler {
 public:
  explicit Incoming(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void OnFile(std::string header, net::Fd file) override {
    auto message = std::make_shared<absl::StatusOr<PythonMessage>>(ReadPacket(std::move(header), std::move(file)));
    if (!message->ok()) {
      PW_LOG_WARNING << "a Python process sends what is not a message: " << message->status();
      return shared_->child.Kill();
    }
    shared_->strand->Post([shared = shared_, message] {
      if (shared->owner != nullptr) shared->owner->OnMessage(*std::move(*message));
    });
  }
  // Kills the process: its children may keep its other connection open.
  void OnFilesClosed(const absl::Status&) override { shared_->child.Kill(); }

 private:
  const std::shared_ptr<Shared> shared_;
};

PythonProcess::PythonProcess(std::vector<std::string> command, std::unique_ptr<PrivateFolder> temporary,
                             const std::string& greeting, const Environment& environment, Owner* owner)
    : environment_(environment),
      shared_(std::make_shared<Shared>(std::move(command), std::move(temporary), environment.strand, this, owner)),
      incoming_(std::make_unique<Incoming>(shared_)) {
  key_ = environment_.files->Expect([shared = shared_](std::unique_ptr<net::FileSocket> socket) {
    auto held = std::make_shared<std::unique_ptr<net::FileSocket>>(std::move(socket));
    shared->strand->Post([shared, held] {
      if (shared->process != nullptr) shared->process->OnConnected(std::move(*held));
    });
  });
  JsonWriter connection;
  connection.BeginObject()
      .Key("address")
      .String(environment_.files->address())
      .Key("key")
      .String(absl::BytesToHexString(key_))
      .EndObject();
  const std::string text = absl::StrCat("{\"connect\":", connection.Take(), ",", greeting, "}\n");
  environment_.threads->Post([shared = shared_, text] {
    absl::Status status = shared->child.EnsureRunning();
    // Checked after the start: an earlier Kill has found no process, and a later one finds it.
    if (shared->stopping) shared->child.Kill();
    if (status.ok()) status = shared->child.Write(text);
    std::string output(kOutputBytes, '\0');
    while (status.ok()) {
      absl::StatusOr<size_t> size = shared->child.ReadSome(output.data(), output.size());
      status = size.status();
      if (!status.ok()) break;
      shared->strand->Post([shared, piece = output.substr(0, *size)] {
        if (shared->owner != nullptr) shared->owner->OnOutput(piece);
      });
    }
    const bool started = shared->child.pid() != 0;
    const std::string how = shared->child.End();
    shared->temporary.reset();
    shared->strand->Post([shared, how = started ? how : std::string(status.message())] {
      if (shared->owner != nullptr) shared->owner->OnEnded(how);
    });
  });
}

PythonProcess::~PythonProcess() {
  shared_->process = nullptr;
  shared_->owner = nullptr;
  environment_.files->Forget(key_);
  shared_->stopping = true;
  shared_->child.Kill();
}

int PythonProcess::pid() const { return shared_->child.pid(); }

void PythonProcess::OnConnected(std::unique_ptr<net::FileSocket> socket) {
  socket_ = std::move(socket);
  socket_->Start(incoming_.get());
  for (OutgoingMessage& message : std::exchange(early_, {})) Send(std::move(message));
}

void PythonProcess::Send(OutgoingMessage message) {
  if (socket_ == nullptr) return early_.push_back(std::move(message));
  const std::optional<net::SharedName> name = message.file().empty() ? std::nullopt : net::NameOf(message.file());
  socket_->Send(message.packet(), name.has_value() ? name->fd : -1, message.owner());
}

}  // namespace pw::worker
