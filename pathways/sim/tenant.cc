#include "pathways/sim/tenant.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/program/program.h"
#include "xla/compile_options.pb.h"

namespace pw::sim {
namespace {

using frontend::IfrtRequest;
using frontend::IfrtResponse;

constexpr int kElements = 4;

buffers::Sharding On(const std::vector<int32_t>& devices) {
  std::vector<DeviceId> ids;
  for (int32_t device : devices) ids.push_back(DeviceId(device));
  if (ids.size() == 1) return buffers::Sharding::SingleDevice(ids[0], "");
  return buffers::Sharding::Replicated(std::move(ids), "");
}

std::string OptionsFor(const std::vector<int32_t>& devices) {
  xla::ifrt::XlaCompileOptionsProto options;
  auto* assignment = options.mutable_compile_options()->mutable_executable_build_options()->mutable_device_assignment();
  assignment->set_replica_count(1);
  assignment->set_computation_count(static_cast<int>(devices.size()));
  for (int32_t device : devices) assignment->add_computation_devices()->add_replica_device_ids(device);
  return options.SerializeAsString();
}

IfrtRequest CompileOf(const std::string& type, const std::string& program, const std::string& options) {
  IfrtRequest request;
  auto& compile = *request.mutable_compile_request();
  compile.mutable_program()->set_type_name(type);
  compile.mutable_program()->set_data(program);
  compile.mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
  compile.mutable_compile_options()->set_data(options);
  return request;
}

IfrtRequest ExecuteOf(uint64_t executable, const std::vector<Value>& args, uint64_t result) {
  IfrtRequest request;
  auto& execute = *request.mutable_loaded_executable_execute_request();
  execute.set_loaded_executable_handle(executable);
  for (const Value& arg : args) execute.add_args_handles(arg.handle);
  execute.add_result_array_handle(result);
  return request;
}

}  // namespace

Tenant::Tenant(SimCluster* cluster, Process* process)
    : process_(process),
      referee_(&cluster->referee()),
      client_(&cluster->network(), process, SimCluster::address_for_clients()) {}

Places Tenant::PlacesOf(const std::vector<int32_t>& devices, const std::vector<Places>& more) {
  auto places = std::make_shared<std::set<std::string>>();
  for (int32_t device : devices) {
    const auto bound = physical_.find(device);
    places->insert(referee_->HostOf(bound == physical_.end() ? device : bound->second));
  }
  for (const Places& p : more) places->insert(p->begin(), p->end());
  return places;
}

void Tenant::Failed(const std::string& what, const Places& places, const absl::Status& status) {
  ++errors_;
  if (referee_->Excused(*places, status)) return;
  referee_->Violation(
      absl::StrCat(name(), ": ", what, " (it was on ", absl::StrJoin(*places, ", "), ") failed: ", status.ToString()));
}

Client::Answer Tenant::Checked(const std::string& what, const Places& places) {
  return [this, what, places](const absl::StatusOr<IfrtResponse>& response) {
    if (!response.ok()) Failed(what, places, response.status());
  };
}

void Tenant::Open(std::function<void(std::vector<int32_t>)> ready) {
  IfrtRequest request;
  request.mutable_init_request();
  client_.Send(std::move(request), [this, ready = std::move(ready)](const absl::StatusOr<IfrtResponse>& response) {
    std::vector<int32_t> devices;
    if (response.ok()) {
      const auto& init = response->init_response();
      devices.assign(init.primary_device_ids().begin(), init.primary_device_ids().end());
    } else if (!referee_->controller_died()) {
      referee_->Violation(absl::StrCat(name(), " was not let in: ", response.status().ToString()));
    }
    ready(std::move(devices));
  });
}

void Tenant::Compile(std::vector<int32_t> devices, int args, int microseconds, std::function<void(Executable)> done) {
  const std::string recipe = absl::StrCat("args=", args, " outputs=1 dims=", kElements, " us=", microseconds);
  const Places places = PlacesOf(devices, {});
  client_.Send(CompileOf("xla::ifrt::XlaProgram", recipe, OptionsFor(devices)),
               [this, devices, args, places, done = std::move(done)](const absl::StatusOr<IfrtResponse>& response) {
                 if (!response.ok()) {
                   Failed("compiling", places, response.status());
                   return done({0, devices, args, false});
                 }
                 done({response->compile_response().loaded_executable_handle(), devices, args, true});
               });
}

void Tenant::Load(const std::string& program, std::function<void(uint64_t)> done) {
  const std::string text = absl::StrCat("__serialized_plugin_program ", program::kProgramMagic, program);
  client_.Send(CompileOf("xla::ifrt::PluginProgram", text, ""),
               [this, done = std::move(done)](const absl::StatusOr<IfrtResponse>& response) {
                 if (!response.ok() && !referee_->controller_died()) {
                   referee_->Violation(absl::StrCat(name(), ": a program was refused: ", response.status().ToString()));
                 }
                 done(response.ok() ? response->compile_response().loaded_executable_handle() : 0);
               });
}

Value Tenant::Make(std::vector<int32_t> devices, const Four& contents) {
  Value value{client_.NewHandle(), std::move(devices), contents, nullptr};
  value.places = PlacesOf(value.devices, {});
  IfrtRequest request;
  auto& make = *request.mutable_make_array_from_host_buffer_request();
  make.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
  make.mutable_shape()->add_dims(kElements);
  *make.mutable_sharding() = frontend::ShardingToProto(On(value.devices));
  make.set_host_buffer_handle(value.handle);
  make.set_array_handle(value.handle);
  make.mutable_byte_strides()->add_strides(sizeof(float));
  client_.Send(std::move(request), Checked("making an array", value.places));
  client_.Store(value.handle, Bytes::Copy({reinterpret_cast<const char*>(contents.data()), sizeof(contents)}));
  return value;
}

Value Tenant::Run(const Executable& executable, const std::vector<Value>& args) {
  Value result{client_.NewHandle(), executable.devices, {}, nullptr};
  std::vector<Places> places;
  for (const Value& arg : args) places.push_back(arg.places);
  result.places = PlacesOf(executable.devices, places);
  for (int e = 0; e < kElements; ++e) {
    float sum = 1;
    for (size_t i = 0; i < args.size(); ++i) sum += static_cast<float>(i + 1) * args[i].expected[e];
    result.expected[e] = sum;
  }
  client_.Send(ExecuteOf(executable.handle, args, result.handle), Checked("a computation", result.places));
  return result;
}

Value Tenant::RunProgram(uint64_t program, const Value& arg, std::vector<int32_t> devices, const Four& expected,
                         const Places& through) {
  Value result{client_.NewHandle(), std::move(devices), expected, nullptr};
  result.places = PlacesOf(result.devices, {arg.places, through});
  client_.Send(ExecuteOf(program, {arg}, result.handle), Checked("a program", result.places));
  return result;
}

Value Tenant::Copy(const Value& value, std::vector<int32_t> devices) {
  Value copy{client_.NewHandle(), std::move(devices), value.expected, nullptr};
  copy.places = PlacesOf(copy.devices, {value.places});
  IfrtRequest request;
  auto& message = *request.mutable_copy_arrays_request();
  message.add_array_handles(value.handle);
  message.mutable_device_ids()->Assign(copy.devices.begin(), copy.devices.end());
  message.add_result_handles(copy.handle);
  client_.Send(std::move(request), Checked("a copy", copy.places));
  return copy;
}

void Tenant::Read(const Value& value, std::function<void()> done) {
  const uint64_t buffer = client_.NewHandle();
  IfrtRequest request;
  auto& copy = *request.mutable_copy_to_host_buffer_request();
  copy.set_array_handle(value.handle);
  copy.set_host_buffer_handle(buffer);
  client_.Send(std::move(request), [this, value, buffer, done = std::move(done)](const absl::StatusOr<IfrtResponse>& response) {
    if (!response.ok()) {
      Compare(value, response.status());
      if (done) done();
      return;
    }
    client_.TakeHostBuffer(buffer, [this, value, done](const absl::StatusOr<Bytes>& bytes) {
      Compare(value, bytes);
      if (done) done();
    });
  });
}

void Tenant::Compare(const Value& value, const absl::StatusOr<Bytes>& bytes) {
  ++reads_;
  if (!bytes.ok()) return Failed("a read", value.places, bytes.status());
  Four got{};
  if (bytes->size() == sizeof(got)) std::memcpy(got.data(), bytes->data(), sizeof(got));
  if (std::memcmp(got.data(), value.expected.data(), sizeof(got)) != 0) {
    referee_->Violation(absl::StrCat(name(), ": array ", value.handle, " holds ", absl::StrJoin(got, ","), " and should hold ",
                                     absl::StrJoin(value.expected, ",")));
  }
}

void Tenant::Drop(const std::vector<Value>& values) {
  IfrtRequest request;
  for (const Value& value : values) request.mutable_destruct_array_request()->add_array_handle(value.handle);
  client_.Send(std::move(request), Checked("dropping arrays", PlacesOf({}, {})));
}

void Tenant::AddSlice(int count, bool exclusive, std::function<void(SliceId, std::vector<int32_t>)> done) {
  resource::SliceRequest request;
  request.count = count;
  request.exclusive = exclusive;
  client_.AddSlice(request, [this, exclusive, done = std::move(done)](const absl::StatusOr<session::SliceState>& state) {
    if (!state.ok() || state->what != session::SliceState::What::kPlaced) {
      Failed(state.ok() ? absl::StrCat("a slice, for ", state->text, ",") : "a slice", PlacesOf({}, {}), state.status());
      return done(SliceId(), {});
    }
    std::vector<int32_t> devices;
    for (size_t i = 0; i < state->devices.size(); ++i) {
      devices.push_back(state->devices[i].v);
      physical_[devices.back()] = state->physical[i].v;
    }
    slices_.insert(state->slice);
    referee_->OnSlice(state->slice, state->physical, exclusive);
    done(state->slice, std::move(devices));
  });
}

void Tenant::ReleaseSlice(SliceId slice) {
  slices_.erase(slice);
  referee_->OnSliceReleased(slice);
  client_.ReleaseSlice(slice);
}

void Tenant::Close() {
  for (SliceId slice : std::exchange(slices_, {})) referee_->OnSliceReleased(slice);
  client_.Disconnect();
}

}  // namespace pw::sim
