#include "pathways/frontend/plugin_programs/persistence.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/sharding.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

// One array of a request.
struct Item {
  std::string location;
  std::string name;
  std::string op_sharding;
  std::vector<DeviceId> devices;
  buffers::DType dtype = buffers::DType::kInvalid;  // for reading, as are the dims
  buffers::Dims dims;
};

absl::StatusOr<Item> ParseItem(const JsonObject& request) {
  Item item;
  PW_ASSIGN_OR_RETURN(item.location, Base64Field(request, "b64_location"));
  PW_ASSIGN_OR_RETURN(item.name, Base64Field(request, "b64_name"));
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
  return absl::InvalidArgumentError(absl::StrCat("there is no element type ", name));
}

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
    session::SaveRequest save{items_[0].location, {}};
    for (size_t i = 0; i < items_.size(); ++i) save.arrays.push_back({items_[i].name, args[i]});
    session.session().SaveArrays(std::move(save), std::move(done));
    return absl::OkStatus();
  }

 private:
  const std::vector<Item> items_;
};

class ReadProgram final : public PluginExecutable {
 public:
  explicit ReadProgram(std::vector<Item> items) : items_(std::move(items)) {}

  std::string name() const override { return "persistence_read"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo&) const override { return items_[0].devices; }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession&, absl::Span<const Handle> args) override {
    if (!args.empty()) return absl::InvalidArgumentError("a program that reads arrays takes none");
    std::vector<buffers::ArraySpec> specs;
    for (const Item& item : items_) {
      buffers::ArraySpec spec{item.dtype, item.dims};
      PW_ASSIGN_OR_RETURN(spec.sharding, ShardingFromOpSharding(item.op_sharding, item.devices, "", spec.dims));
      specs.push_back(std::move(spec));
    }
    return specs;
  }
  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       StatusCallback done) override {
    PW_ASSIGN_OR_RETURN(const std::vector<buffers::ArraySpec> specs, Outputs(session, args));
    session::LoadRequest load{items_[0].location, {}};
    for (size_t i = 0; i < items_.size(); ++i) load.arrays.push_back({items_[i].name, results[i], specs[i]});
    session.session().LoadArrays(std::move(load), std::move(done));
    return absl::OkStatus();
  }

 private:
  const std::vector<Item> items_;
};

absl::StatusOr<std::vector<JsonObject>> Requests(const JsonObject& request, const std::string& field) {
  PW_ASSIGN_OR_RETURN(std::vector<JsonObject> requests, ObjectsField(request, field));
  if (requests.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty"));
  return requests;
}

absl::StatusOr<std::vector<Item>> ParseItems(const std::vector<JsonObject>& requests) {
  std::vector<Item> items;
  for (const JsonObject& r : requests) {
    PW_ASSIGN_OR_RETURN(Item item, ParseItem(r));
    if (!items.empty() && item.location != items[0].location) {
      return absl::InvalidArgumentError(
          absl::StrCat("one program uses the locations ", items[0].location, " and ", item.location,
                       ": arrays of one program are in one location, where they are committed together"));
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeWriteProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const std::vector<JsonObject> requests, Requests(request, "write_requests"));
  PW_ASSIGN_OR_RETURN(std::vector<Item> items, ParseItems(requests));
  return std::make_shared<WriteProgram>(std::move(items));
}

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeReadProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(const std::vector<JsonObject> requests, Requests(request, "read_requests"));
  PW_ASSIGN_OR_RETURN(std::vector<Item> items, ParseItems(requests));
  for (size_t i = 0; i < items.size(); ++i) {
    PW_ASSIGN_OR_RETURN(const JsonObject shape, ObjectField(requests[i], "shape"));
    PW_ASSIGN_OR_RETURN(const std::string type, StringField(shape, "xla_primitive_type_str"));
    PW_ASSIGN_OR_RETURN(items[i].dtype, DTypeFromName(type));
    PW_ASSIGN_OR_RETURN(items[i].dims, NumbersField(shape, "dimensions"));
  }
  return std::make_shared<ReadProgram>(std::move(items));
}

}  // namespace pw::frontend
