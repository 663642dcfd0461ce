#include "pathways/frontend/plugin_programs/host_memory.h"

#include <sys/stat.h>

#include <array>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/net/shared/shared_copy.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

using Numbers = std::array<uint64_t, 6>;

Numbers NumbersOf(const net::SharedName& name) {
  return {static_cast<uint64_t>(name.pid), static_cast<uint64_t>(name.fd), name.device, name.inode, name.offset, name.size};
}

Bytes Encode(const Numbers& numbers) {
  return Bytes::FromString(std::string(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers)));
}

// Keeps contents that a client reads: a host buffer of its session, or a copy here.
struct Holder {
  Handle buffer = 0;
  Bytes copy;
};

struct Lent {
  absl::flat_hash_map<Handle, Holder> holders;  // by the array that names their place
  net::SharedMemoryFactory memory;              // for contents that came over a network
};

// Copies contents that came over a network to shared memory. Nullopt if they are small, or there is no such memory.
std::optional<Bytes> InSharedMemory(const Bytes& contents, net::SharedMemoryFactory& factory) {
  if (contents.size() < net::SharedMemoryFactory::kWorthwhileBytes) return std::nullopt;
  absl::StatusOr<Bytes> copy = net::SharedCopy(factory, contents);
  return copy.ok() ? std::optional<Bytes>(*std::move(copy)) : std::nullopt;
}

// One run: fetches the array, finds the place of its contents and answers. Each step is on the strand.
class Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(ClientSession& session, std::shared_ptr<Lent> lent, Handle result, Handle answer, StatusCallback done)
      : session_(session.weak_from_this()),
        lent_(std::move(lent)),
        result_(result),
        contents_(session.session().NewHandle()),
        answer_(answer),
        done_(std::move(done)) {}

  void Start(ClientSession& session, Handle array) {
    session.session().CopyToHostBuffer(array, contents_, std::nullopt, [self = shared_from_this()](absl::Status status) {
      auto session = self->session_.lock();
      if (session == nullptr || !session->open()) return std::move(self->done_)(absl::CancelledError("the session has ended"));
      if (!status.ok()) return self->Answer(*session, {});
      session->session().LookupHostBuffer(self->contents_, [self](absl::StatusOr<Bytes> data) { self->Found(std::move(data)); });
    });
  }

 private:
  void Found(absl::StatusOr<Bytes> data) {
    auto session = session_.lock();
    if (session == nullptr || !session->open()) return std::move(done_)(absl::CancelledError("the session has ended"));
    std::optional<Numbers> where;
    if (data.ok() && net::NameOf(*data).has_value()) {
      where = NumbersOf(*net::NameOf(*data));
    }
    if (where.has_value()) {
      lent_->holders[result_] = {.buffer = contents_};
    } else {
      (void)session->session().DeleteHostBuffer(contents_);
      if (data.ok()) where = LendCopy(*data);
    }
    Answer(*session, where.value_or(Numbers{}));
  }

  std::optional<Numbers> LendCopy(const Bytes& data) {
    std::optional<Bytes> shared = InSharedMemory(data, lent_->memory);
    if (!shared.has_value()) return std::nullopt;
    const std::optional<net::SharedName> name = net::NameOf(*shared);
    lent_->holders[result_] = {.copy = *std::move(shared)};
    return NumbersOf(*name);
  }

  void Answer(ClientSession& session, const Numbers& where) {
    std::move(done_)(session.session().StoreHostBuffer(answer_, Encode(where)));
  }

  const std::weak_ptr<ClientSession> session_;
  const std::shared_ptr<Lent> lent_;
  const Handle result_;
  const Handle contents_;  // the host buffer
  const Handle answer_;    // the host buffer of the result
  StatusCallback done_;
};

class HostMemoryProgram final : public PluginExecutable {
 public:
  explicit HostMemoryProgram(DeviceId device) : device_(device) {}

  std::string name() const override { return "host_memory"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo&) const override { return {device_}; }

  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession&, absl::Span<const Handle> args) override {
    if (args.size() != 1)
      return absl::InvalidArgumentError(absl::StrCat("a host-memory program takes one array, not ", args.size()));
    return std::vector<buffers::ArraySpec>{
        {buffers::DType::kU8, {sizeof(Numbers)}, buffers::Sharding::SingleDevice(device_, ""), ""}};
  }

  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       StatusCallback done) override {
    PW_ASSIGN_OR_RETURN(const std::vector<buffers::ArraySpec> specs, Outputs(session, args));
    const Handle answer = session.session().NewHandle();
    PW_RETURN_IF_ERROR(
        session.session().MakeArray(results[0], specs[0], {{answer, {specs[0].dtype, specs[0].dims, std::nullopt}, {0}}}));
    if (auto it = lent_->holders.find(args[0]); it != lent_->holders.end()) {
      const Handle buffer = it->second.buffer;
      lent_->holders.erase(it);
      if (buffer != 0) PW_RETURN_IF_ERROR(session.session().DeleteHostBuffer(buffer));
      std::move(done)(session.session().StoreHostBuffer(answer, Encode({})));
      return absl::OkStatus();
    }
    std::make_shared<Reading>(session, lent_, results[0], answer, std::move(done))->Start(session, args[0]);
    return absl::OkStatus();
  }

 private:
  const DeviceId device_;
  const std::shared_ptr<Lent> lent_ = std::make_shared<Lent>();
};

absl::StatusOr<DeviceId> Device(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, NumbersField(request, "device_ids"));
  if (ids.size() != 1 || ids[0] != static_cast<int32_t>(ids[0]))
    return absl::InvalidArgumentError("reading to host memory names one device");
  return DeviceId(static_cast<int32_t>(ids[0]));
}

}  // namespace

std::string MachineIdentity() {
  std::string boot(36, '\0');
  struct stat pids;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!file.read(boot.data(), static_cast<std::streamsize>(boot.size())) || stat("/proc/self/ns/pid", &pids) != 0) return "";
  return absl::StrCat(boot, " ", pids.st_ino);
}

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeHostMemoryProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const DeviceId device, Device(request));
  PW_ASSIGN_OR_RETURN(const std::string machine, StringField(request, "machine"));
  if (machine.empty() || machine != MachineIdentity()) {
    return absl::UnimplementedError("this server shares its memory with processes of its own machine only");
  }
  return std::make_shared<HostMemoryProgram>(device);
}

}  // namespace pw::frontend
