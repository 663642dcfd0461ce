#include "pathways/device/pjrt/host_callback.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/packed.h"
#include "xla/ffi/api/c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace pw::device::pjrt {
namespace {

// The target's name in programs, and the name that XLA knows. XLA gives calls of that name a sharding that lets them run on one device of a
// mesh, even without results. Both have the same length, so that one replaces the other in any form of a program.
constexpr absl::string_view kTarget = "pathways_host_callback_call";
constexpr absl::string_view kXlaTarget = "xla_ffi_python_cpu_callback";
static_assert(kTarget.size() == kXlaTarget.size());
// For calls that every device makes with its own shards, if the plugin supports them (plugins/pjrt_cpu/programs/shard_calls.h).
constexpr absl::string_view kTargetOnShards = "pathways_host_callback_on_shards";
constexpr absl::string_view kTypeName = "pw::device::pjrt::CallContext";

// The plugin's id for user data of type CallContext. Global because a C handler gets no argument of ours; the id is the same for every
// client of a process.
std::atomic<int64_t> context_type_id{0};

XLA_FFI_Error* MakeError(const XLA_FFI_Api* api, const absl::Status& status) {
  const std::string message(status.message());
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message.c_str();
  args.errc = static_cast<XLA_FFI_Error_Code>(status.code());  // the numbers are the same
  return api->XLA_FFI_Error_Create(&args);
}

absl::Status TakeError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  XLA_FFI_Error_GetMessage_Args message{};
  message.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  message.error = error;
  api->XLA_FFI_Error_GetMessage(&message);
  absl::Status status = absl::InternalError(message.message);
  XLA_FFI_Error_Destroy_Args destroy{};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return status;
}

absl::StatusOr<HostCallOperand> ReadBuffer(void* pointer) {
  const auto* buffer = static_cast<const XLA_FFI_Buffer*>(pointer);
  HostCallOperand operand;
  PW_ASSIGN_OR_RETURN(operand.dtype, buffers::DTypeFromNumber(buffer->dtype));  // the numbers are the same
  operand.dims.assign(buffer->dims, buffer->dims + buffer->rank);
  return operand;
}

int64_t ByteSize(const HostCallOperand& operand) {
  int64_t size = buffers::HostBytes(operand.dtype);
  for (int64_t d : operand.dims) size *= d;
  return size;
}

absl::StatusOr<uint64_t> ReadCallback(const XLA_FFI_Attrs& attrs) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (absl::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != "callback" || attrs.types[i] != XLA_FFI_AttrType_SCALAR)
      continue;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    if (scalar->dtype != XLA_FFI_DataType_S64 && scalar->dtype != XLA_FFI_DataType_U64) continue;
    uint64_t value;
    std::memcpy(&value, scalar->value, sizeof(value));
    return value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the custom call ", kTarget, " needs a 64-bit integer attribute named callback"));
}

absl::StatusOr<CallContext*> FindContext(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_TypeId type_id{context_type_id.load()};
  XLA_FFI_ExecutionContext_Get_Args args{};
  args.struct_size = XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  args.type_id = &type_id;
  if (absl::Status status = TakeError(frame.api, frame.api->XLA_FFI_ExecutionContext_Get(&args)); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("the program was compiled without host callbacks: ", status.message()));
  }
  return static_cast<CallContext*>(args.data);
}

int DeviceOf(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_DeviceOrdinal_Get_Args args{};
  args.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  return TakeError(frame.api, frame.api->XLA_FFI_DeviceOrdinal_Get(&args)).ok() ? args.device_ordinal : 0;
}

// A call in progress: its result buffers, and the future that tells the plugin.
struct PendingCall {
  const XLA_FFI_Api* api;
  XLA_FFI_Future* future;
  std::vector<void*> results;
  std::vector<buffers::DType> result_types;
  std::vector<int64_t> result_bytes;

  absl::Status Write(const HostCallReply& reply) const {
    if (!reply.ok()) return reply.status();
    if (reply->size() != results.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the host callback returned ", reply->size(), " results instead of ", results.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (static_cast<int64_t>((*reply)[i].size()) != result_bytes[i]) {
        return absl::InvalidArgumentError(
            absl::StrCat("result ", i, " of the host callback has ", (*reply)[i].size(), " bytes instead of ", result_bytes[i]));
      }
      if (PackedBits(result_types[i]) > 0) {
        Pack(result_types[i], (*reply)[i].view(), results[i]);
      } else if (result_bytes[i] > 0) {
        std::memcpy(results[i], (*reply)[i].data(), result_bytes[i]);
      }
    }
    return absl::OkStatus();
  }

  void Complete(const HostCallReply& reply) const {
    if (absl::Status status = Write(reply); !status.ok()) {
      XLA_FFI_Future_SetError_Args args{};
      args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
      args.future = future;
      args.error = MakeError(api, status);
      TakeError(api, api->XLA_FFI_Future_SetError(&args)).IgnoreError();
      return;
    }
    XLA_FFI_Future_SetAvailable_Args args{};
    args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
    args.future = future;
    TakeError(api, api->XLA_FFI_Future_SetAvailable(&args)).IgnoreError();
  }
};

absl::Status StartCall(XLA_FFI_CallFrame* frame) {
  PW_ASSIGN_OR_RETURN(CallContext * context, FindContext(*frame));
  HostCallRequest request;
  request.session = context->session();
  PW_ASSIGN_OR_RETURN(request.callback, ReadCallback(frame->attrs));
  request.device = DeviceOf(*frame);
  for (int64_t i = 0; i < frame->args.size; ++i) {
    PW_ASSIGN_OR_RETURN(HostCallOperand operand, ReadBuffer(frame->args.args[i]));
    if (operand.dtype == buffers::DType::kToken) continue;  // only orders the call; not passed to the function
    const char* data = static_cast<const char*>(static_cast<const XLA_FFI_Buffer*>(frame->args.args[i])->data);
    PW_ASSIGN_OR_RETURN(operand.data, PackedBits(operand.dtype) > 0 ? Unpack(operand.dtype, data, ByteSize(operand))
                                                                    : TryCopy({data, static_cast<size_t>(ByteSize(operand))}));
    request.operands.push_back(std::move(operand));
  }
  PendingCall call{frame->api, nullptr, {}, {}, {}};
  for (int64_t i = 0; i < frame->rets.size; ++i) {
    PW_ASSIGN_OR_RETURN(HostCallOperand result, ReadBuffer(frame->rets.rets[i]));
    if (result.dtype == buffers::DType::kToken) continue;
    call.results.push_back(static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[i])->data);
    call.result_types.push_back(result.dtype);
    call.result_bytes.push_back(ByteSize(result));
  }
  request.result_bytes = call.result_bytes;
  XLA_FFI_Future_Create_Args future{};
  future.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
  PW_RETURN_IF_ERROR(TakeError(frame->api, frame->api->XLA_FFI_Future_Create(&future)));
  call.future = future.future;
  frame->future = future.future;
  HostCallbacks& owner = context->owner();
  owner.Call(std::move(request), [call = std::move(call), pool = owner.completions()](HostCallReply reply) mutable {
    pool->Post([call = std::move(call), reply = std::move(reply)] { call.Complete(reply); });
  });
  return absl::OkStatus();
}

XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  absl::Status status = StartCall(frame);
  return status.ok() ? nullptr : MakeError(frame->api, status);
}

const PJRT_FFI_Extension* FindFfi(const Api& api) {
  return reinterpret_cast<const PJRT_FFI_Extension*>(api.FindExtension(PJRT_Extension_Type_FFI));
}

absl::Status RegisterType(const Api& api, const PJRT_FFI_Extension& ffi) {
  if (context_type_id.load() != 0) return absl::OkStatus();
  PJRT_FFI_Type_Info info{};
  PW_PJRT_ARGS(args, PJRT_FFI_Type_Register_Args);
  args.type_name = kTypeName.data();
  args.type_name_size = kTypeName.size();
  args.type_info = &info;
  PW_RETURN_IF_ERROR(api.TakeError(ffi.type_register(&args)));
  context_type_id.store(args.type_id);
  for (absl::string_view target : {kXlaTarget, kTargetOnShards}) {
    PW_PJRT_ARGS(handler, PJRT_FFI_Register_Handler_Args);
    handler.target_name = target.data();
    handler.target_name_size = target.size();
    handler.handler = reinterpret_cast<void*>(&Handle);
    handler.platform_name = "Host";
    handler.platform_name_size = 4;
    PW_RETURN_IF_ERROR(api.TakeError(ffi.register_handler(&handler)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string WithXlaNames(absl::string_view program) { return absl::StrReplaceAll(program, {{kTarget, kXlaTarget}}); }

CallContext::~CallContext() {
  PW_PJRT_ARGS(args, PJRT_ExecuteContext_Destroy_Args);
  args.context = handle_;
  owner_->client().api().Call(&PJRT_Api::PJRT_ExecuteContext_Destroy, &args).IgnoreError();
}

absl::StatusOr<std::shared_ptr<HostCallbacks>> HostCallbacks::Register(std::shared_ptr<const Client> client) {
  if (client->info().platform_name != "cpu") {
    return absl::UnimplementedError(
        absl::StrCat("host callbacks run on cpu devices only, not on ", client->info().platform_name));
  }
  const PJRT_FFI_Extension* ffi = FindFfi(client->api());
  if (ffi == nullptr || ffi->type_register == nullptr || ffi->user_data_add == nullptr || ffi->register_handler == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("the device plugin ", client->api().path(), " has no FFI extension for host callbacks"));
  }
  PW_RETURN_IF_ERROR(RegisterType(client->api(), *ffi));
  return std::shared_ptr<HostCallbacks>(new HostCallbacks(std::move(client)));
}

absl::StatusOr<std::shared_ptr<CallContext>> HostCallbacks::MakeContext(SessionId session) {
  const Api& api = client_->api();
  PW_PJRT_ARGS(create, PJRT_ExecuteContext_Create_Args);
  PW_RETURN_IF_ERROR(api.Call(&PJRT_Api::PJRT_ExecuteContext_Create, &create));
  auto context = std::make_shared<CallContext>(shared_from_this(), session, create.context);
  PW_PJRT_ARGS(add, PJRT_FFI_UserData_Add_Args);
  add.context = create.context;
  add.user_data = {context_type_id.load(), context.get()};
  PW_RETURN_IF_ERROR(api.TakeError(FindFfi(api)->user_data_add(&add)));
  return context;
}

void HostCallbacks::SetHandler(HostCallHandler handler) {
  auto shared = handler ? std::make_shared<const HostCallHandler>(std::move(handler)) : nullptr;
  std::lock_guard<std::mutex> lock(mu_);
  handler_ = std::move(shared);
}

void HostCallbacks::Call(HostCallRequest request, std::function<void(HostCallReply)> done) {
  std::shared_ptr<const HostCallHandler> handler;
  {
    std::lock_guard<std::mutex> lock(mu_);
    handler = handler_;
  }
  if (handler == nullptr) {
    done(absl::UnavailableError("the worker has lost its controller, and with it the client that this program calls back to"));
    return;
  }
  (*handler)(std::move(request), std::move(done));
}

}  // namespace pw::device::pjrt
