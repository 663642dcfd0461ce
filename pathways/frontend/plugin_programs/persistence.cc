#include "pathways/frontend/plugin_programs/persistence.h"

#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/plugin_programs/services.h"
#include "pathways/frontend/plugin_programs/zarr.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

constexpr char kMetadataFile[] = ".zarray";

// One R of a request.
struct Item {
  std::string location;
  std::string op_sharding;
  std::vector<DeviceId> devices;
  ZarrArray array;  // for reading: type and dims; for writing: empty
};

absl::StatusOr<Item> ParseItem(const JsonObject& request) {
  Item item;
  PW_ASSIGN_OR_RETURN(item.location, Base64Field(request, "b64_location"));
  PW_ASSIGN_OR_RETURN(const std::string name, Base64Field(request, "b64_name"));
  absl::StrAppend(&item.location, "/", name);
  PW_ASSIGN_OR_RETURN(item.op_sharding, Base64Field(request, "b64_hlo_sharding_string"));
  PW_ASSIGN_OR_RETURN(item.devices, DevicesField(request, "devices"));
  return item;
}

// "F32", "BF16", ...
absl::StatusOr<buffers::DType> DTypeFromName(const std::string& name) {
  for (int number = 1; number < 64; ++number) {
    auto dtype = buffers::DTypeFromNumber(number);
    if (!dtype.ok()) continue;
    const std::string_view known = buffers::Name(*dtype);
    if (absl::AsciiStrToUpper({known.data(), known.size()}) == name) return *dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("Bad PluginProgram: there is no element type ", name));
}

// Returns for each tile the shards that hold it, ascending.
std::vector<std::vector<int32_t>> ShardsByTile(const buffers::Sharding& sharding) {
  std::vector<std::vector<int32_t>> shards(sharding.num_tiles());
  for (int i = 0; i < sharding.num_shards(); ++i) shards[sharding.TileOfShard(i)].push_back(i);
  return shards;
}

// Writes pieces one after another: device -> front end -> file. On the strand, except the writing itself.
class WriteJob : public std::enable_shared_from_this<WriteJob> {
 public:
  struct Piece {
    Handle single = 0;  // 0: an array without elements; only its metadata is written
    StoredFolder directory;
    std::shared_ptr<const ZarrArray> array;
    buffers::Region region;
    bool last_of_array = false;
  };
  WriteJob(ClientSession& session, StatusCallback done)
      : cluster_(session.cluster()),
        files_(*session.services().files),
        session_(session.weak_from_this()),
        done_(std::move(done)) {}

  // Ends the job; called instead of Next.
  void Fail(const absl::Status& status) { Finish(status); }
  void Add(Piece piece) { pieces_.push_back(std::move(piece)); }

  void Next() {
    auto session = session_.lock();
    if (session == nullptr || !session->open())
      return Finish(absl::CancelledError("the session ended while its arrays were written"));
    if (pieces_.empty()) return Finish(absl::OkStatus());
    const Handle single = pieces_.front().single;
    if (single == 0) return Write(Bytes());
    const Handle buffer = session->session().NewHandle();
    session->session().CopyToHostBuffer(single, buffer, std::nullopt, [self = shared_from_this(), buffer](absl::Status status) {
      if (!status.ok()) return self->Finish(status);
      self->Fetch(buffer);
    });
  }

 private:
  void Fetch(Handle buffer) {
    auto session = session_.lock();
    if (session == nullptr || !session->open())
      return Finish(absl::CancelledError("the session ended while its arrays were written"));
    session->session().LookupHostBuffer(buffer, [self = shared_from_this()](absl::StatusOr<Bytes> data) {
      if (!data.ok()) return self->Finish(data.status());
      self->Write(*std::move(data));
    });
    (void)session->session().DeleteHostBuffer(buffer);
    Drop(*session, pieces_.front().single);
  }

  void Write(Bytes data) {
    files_.Post([self = shared_from_this(), piece = std::move(pieces_.front()), data = std::move(data)] {
      absl::Status status;
      if (piece.single != 0) status = WriteZarrChunk(piece.directory, *piece.array, piece.region, data);
      if (piece.last_of_array && status.ok()) {
        absl::StatusOr<std::string> metadata = ZarrMetadata(*piece.array);
        status = metadata.ok() ? WriteWholeFile(piece.directory, kMetadataFile, Bytes::FromString(*std::move(metadata)))
                               : metadata.status();
      }
      self->cluster_.Post([self, status] { status.ok() ? self->Next() : self->Finish(status); });
    });
    pieces_.pop_front();
  }

  static void Drop(ClientSession& session, Handle single) { (void)session.session().Destruct({&single, 1}); }

  void Finish(const absl::Status& status) {
    auto session = session_.lock();
    for (const Piece& piece : std::exchange(pieces_, {})) {
      if (session != nullptr && session->open() && piece.single != 0) Drop(*session, piece.single);
    }
    if (auto done = std::exchange(done_, nullptr)) std::move(done)(status);
  }

  controller::Cluster& cluster_;
  Executor& files_;
  std::weak_ptr<ClientSession> session_;
  std::deque<Piece> pieces_;
  StatusCallback done_;
};

class WriteProgram final : public PluginExecutable {
 public:
  explicit WriteProgram(std::vector<Item> items) : items_(std::move(items)) {}

  std::string name() const override { return "persistence_write"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo&) const override { return items_[0].devices; }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession&, absl::Span<const Handle> args) override {
    if (args.size() == items_.size()) return std::vector<buffers::ArraySpec>();
    return absl::InvalidArgumentError(
        absl::StrCat("a program that writes ", items_.size(), " arrays was called with ", args.size()));
  }
  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle>,
                       StatusCallback done) override {
    auto job = std::make_shared<WriteJob>(session, std::move(done));
    absl::Status status;
    for (size_t i = 0; i < items_.size() && status.ok(); ++i) status = AddArray(session, items_[i], args[i], *job);
    status.ok() ? job->Next() : job->Fail(status);
    return status;
  }

 private:
  static absl::Status AddArray(ClientSession& session, const Item& item, Handle arg, WriteJob& job);

  const std::vector<Item> items_;
};

absl::Status WriteProgram::AddArray(ClientSession& session, const Item& item, Handle arg, WriteJob& job) {
  PW_ASSIGN_OR_RETURN(const StoredFolder directory, session.services().storage.Resolve(item.location));
  PW_ASSIGN_OR_RETURN(const buffers::ArraySpec spec, session.session().Spec(arg));
  auto array = std::make_shared<ZarrArray>(ZarrArray{spec.dtype, spec.dims, spec.dims});
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const int64_t tiles = spec.sharding.fully_replicated() ? 1 : spec.sharding.tiles().counts[d];
    array->chunks[d] = std::max<int64_t>(1, (spec.dims[d] + tiles - 1) / tiles);
  }
  PW_RETURN_IF_ERROR(ZarrMetadata(*array).status());
  std::vector<Handle> singles(spec.sharding.num_shards());
  for (Handle& single : singles) single = session.session().NewHandle();
  PW_RETURN_IF_ERROR(session.session().Disassemble(singles, arg, controller::CopySemantics::kReuseInput));
  const auto shards_by_tile = ShardsByTile(spec.sharding);
  for (size_t t = 0; t < shards_by_tile.size(); ++t) {
    WriteJob::Piece piece{0, directory, array, spec.sharding.TileRegion(spec.dims, static_cast<int64_t>(t)),
                          t + 1 == shards_by_tile.size()};
    if (!piece.region.empty()) std::swap(piece.single, singles[shards_by_tile[t][0]]);
    if (piece.single != 0 || piece.last_of_array) job.Add(std::move(piece));
  }
  std::erase(singles, Handle{0});
  return session.session().Destruct(singles);
}

class ReadProgram final : public PluginExecutable {
 public:
  explicit ReadProgram(std::vector<Item> items) : items_(std::move(items)) {}

  std::string name() const override { return "persistence_read"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo&) const override { return items_[0].devices; }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession&, absl::Span<const Handle> args) override;
  void Prepare(ClientSession& session, StatusCallback done) override;
  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       StatusCallback done) override;

 private:
  // One tile to read, and the host buffer that it becomes.
  struct Piece {
    size_t item;
    buffers::Region region;
    Handle buffer;
  };
  absl::StatusOr<std::vector<Piece>> MakeResults(ClientSession& session, const std::vector<buffers::ArraySpec>& specs,
                                                 absl::Span<const Handle> results) const;
  absl::Status Open(const Storage& storage);

  std::vector<Item> items_;
  std::vector<StoredFolder> directories_;  // constant after Prepare
};

absl::StatusOr<std::vector<buffers::ArraySpec>> ReadProgram::Outputs(ClientSession&, absl::Span<const Handle> args) {
  if (!args.empty()) return absl::InvalidArgumentError("a program that reads arrays takes none");
  std::vector<buffers::ArraySpec> specs;
  for (const Item& item : items_) {
    buffers::ArraySpec spec{item.array.dtype, item.array.dims};
    PW_ASSIGN_OR_RETURN(spec.sharding, ShardingFromOpSharding(item.op_sharding, item.devices, "", spec.dims));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Finds the arrays and learns their chunks. On the files' thread.
absl::Status ReadProgram::Open(const Storage& storage) {
  for (Item& item : items_) {
    PW_ASSIGN_OR_RETURN(StoredFolder directory, storage.Resolve(item.location));
    PW_ASSIGN_OR_RETURN(const Bytes metadata, ReadWholeFile(directory, kMetadataFile, 1 << 20));
    const std::string_view text = metadata.view();
    PW_ASSIGN_OR_RETURN(const ZarrArray stored, ParseZarrMetadata({text.data(), text.size()}));
    if (stored.dtype != item.array.dtype || stored.dims != item.array.dims) {
      return absl::InvalidArgumentError(
          absl::StrCat("the array at ", item.location, " has another type or shape than the request"));
    }
    item.array.chunks = stored.chunks;
    directories_.push_back(std::move(directory));
  }
  return absl::OkStatus();
}

void ReadProgram::Prepare(ClientSession& session, StatusCallback done) {
  auto self = std::static_pointer_cast<ReadProgram>(shared_from_this());
  session.services().files->Post(
      [self, &cluster = session.cluster(), &storage = session.services().storage, done = std::move(done)]() mutable {
        absl::Status status = self->Open(storage);
        cluster.Post([self, status = std::move(status), done = std::move(done)]() mutable { std::move(done)(status); });
      });
}

absl::StatusOr<std::vector<ReadProgram::Piece>> ReadProgram::MakeResults(ClientSession& session,
                                                                         const std::vector<buffers::ArraySpec>& specs,
                                                                         absl::Span<const Handle> results) const {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < specs.size(); ++i) {
    std::vector<controller::HostShard> sources;
    const auto shards_by_tile = ShardsByTile(specs[i].sharding);
    for (size_t t = 0; t < shards_by_tile.size(); ++t) {
      buffers::Region region = specs[i].sharding.TileRegion(specs[i].dims, static_cast<int64_t>(t));
      const Handle buffer = session.session().NewHandle();
      sources.push_back({buffer, {specs[i].dtype, region.size, std::nullopt}, shards_by_tile[t]});
      pieces.push_back({i, std::move(region), buffer});
    }
    PW_RETURN_IF_ERROR(session.session().MakeArray(results[i], specs[i], std::move(sources)));
  }
  return pieces;
}

absl::Status ReadProgram::Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                                  StatusCallback done) {
  PW_ASSIGN_OR_RETURN(const std::vector<buffers::ArraySpec> specs, Outputs(session, args));
  absl::StatusOr<std::vector<Piece>> pieces = MakeResults(session, specs, results);
  if (!pieces.ok()) return pieces.status();
  auto self = std::static_pointer_cast<ReadProgram>(shared_from_this());
  session.services().files->Post([self, pieces = *std::move(pieces), weak = session.weak_from_this(),
                                  &cluster = session.cluster(), done = std::move(done)]() mutable {
    absl::Status first_error;
    for (const Piece& piece : pieces) {
      absl::StatusOr<Bytes> data = ReadZarrRegion(self->directories_[piece.item], self->items_[piece.item].array, piece.region);
      first_error.Update(data.status());
      // After an error an empty buffer, which does not fit the array: then the array becomes an error, instead of staying pending for ever.
      cluster.Post([weak, buffer = piece.buffer, data = data.ok() ? *std::move(data) : Bytes()]() mutable {
        auto session = weak.lock();
        if (session != nullptr && session->open()) (void)session->session().StoreHostBuffer(buffer, std::move(data));
      });
    }
    cluster.Post([first_error, done = std::move(done)]() mutable { std::move(done)(first_error); });
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JsonObject>> Requests(const JsonObject& request, const std::string& field) {
  PW_ASSIGN_OR_RETURN(std::vector<JsonObject> requests, ObjectsField(request, field));
  if (requests.empty()) return absl::InvalidArgumentError(absl::StrCat("Bad PluginProgram: ", field, " is empty"));
  return requests;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeWriteProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const std::vector<JsonObject> requests, Requests(request, "write_requests"));
  std::vector<Item> items;
  for (const JsonObject& r : requests) {
    PW_ASSIGN_OR_RETURN(Item item, ParseItem(r));
    items.push_back(std::move(item));
  }
  return std::make_shared<WriteProgram>(std::move(items));
}

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeReadProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const std::vector<JsonObject> requests, Requests(request, "read_requests"));
  std::vector<Item> items;
  for (const JsonObject& r : requests) {
    PW_ASSIGN_OR_RETURN(Item item, ParseItem(r));
    PW_ASSIGN_OR_RETURN(const JsonObject shape, ObjectField(r, "shape"));
    PW_ASSIGN_OR_RETURN(const std::string type, StringField(shape, "xla_primitive_type_str"));
    PW_ASSIGN_OR_RETURN(item.array.dtype, DTypeFromName(type));
    PW_ASSIGN_OR_RETURN(item.array.dims, NumbersField(shape, "dimensions"));
    items.push_back(std::move(item));
  }
  return std::make_shared<ReadProgram>(std::move(items));
}

}  // namespace pw::frontend
