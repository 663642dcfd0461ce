// Executions: turns the host's lists of buffers into arrays of the session, and the results into buffers.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "pathways/base/status_macros.h"
#include "plugins/pathways_pjrt/handles.h"

struct PJRT_ExecuteContext {};

namespace pw::pathways_pjrt {
namespace {

class Execution {
 public:
  Execution(PJRT_LoadedExecutable_Execute_Args* args, const Program& program)
      : args_(args),
        program_(program),
        devices_(args->execute_device == nullptr ? absl::MakeConstSpan(args->executable->devices)
                                                 : absl::MakeConstSpan(&args->execute_device, 1)) {}

  absl::Status Run() {
    PW_RETURN_IF_ERROR(Check());
    std::vector<std::shared_ptr<SharedArray>> arrays;
    absl::InlinedVector<const client::Array*, 8> handles;
    arrays.reserve(args_->num_args);
    for (size_t i = 0; i < args_->num_args; ++i) {
      PW_ASSIGN_OR_RETURN(arrays.emplace_back(), Argument(i));
      handles.push_back(&arrays.back()->array());
    }
    client::RunOptions options = Options();
    PW_RETURN_IF_ERROR(CheckDonated(options.non_donatable, arrays));
    Donate(options.non_donatable, arrays);
    client::Run run;
    if (program_.port.has_value()) {
      PW_ASSIGN_OR_RETURN(PortResults port,
                          program_.port->program->Execute(program_.port->options, arrays, options.non_donatable));
      run.results = std::move(port.arrays);
      sent_ = std::move(port.sent);
      run.end = Future<Unit>::Ready(Unit());  // the port itself has no work to wait for
    } else {
      run = program_.session->Execute(program_.info, handles, std::move(options));
    }
    Return(std::move(run));
    return absl::OkStatus();
  }

 private:
  absl::Status Check() const {
    const size_t parameters = program_.info->parameters.size();
    if (args_->num_devices != devices_.size())
      return absl::InvalidArgumentError(absl::StrCat("program ", program_.info->name, " runs on ", devices_.size(),
                                                     " devices, but is called with arguments for ", args_->num_devices));
    if (args_->num_args != parameters)
      return absl::InvalidArgumentError(absl::StrCat("program ", program_.info->name, " takes ", parameters,
                                                     " arguments, but is called with ", args_->num_args));
    if (args_->options->num_send_ops + args_->options->num_recv_ops > 0)
      return NotYet("sending to and receiving from the host in a program");
    return absl::OkStatus();
  }

  // Returns the array of the buffers that the devices take as this argument.
  absl::StatusOr<std::shared_ptr<SharedArray>> Argument(size_t index) {
    absl::InlinedVector<Place, 8> places;
    bool whole = true;  // the buffers are all those of one array, in its order
    for (size_t d = 0; d < devices_.size(); ++d) {
      places.push_back(args_->argument_lists[d][index]->get());
      if (places[d].array == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("argument ", index, " of program ", program_.info->name, " is a deleted or donated buffer"));
      whole = whole && places[d].array == places[0].array && places[d].shard == static_cast<int>(d);
    }
    if (whole && places[0].array->num_shards() == static_cast<int>(devices_.size())) return places[0].array;
    if (devices_.size() == 1) return SharedArray::Single(places[0]);
    return PutTogether(index, places);
  }

  // Puts an array together. The buffers keep it, so that the next execution finds it.
  std::shared_ptr<SharedArray> PutTogether(size_t index, absl::Span<const Place> places) {
    std::vector<std::shared_ptr<SharedArray>> singles;
    for (const Place& place : places) singles.push_back(SharedArray::Single(place));
    auto array = SharedArray::Of(program_.session, SpecOf(index), std::move(singles));
    for (size_t d = 0; d < places.size(); ++d) {
      PJRT_Buffer* buffer = args_->argument_lists[d][index];
      std::lock_guard<std::mutex> lock(buffer->mu);
      if (buffer->place.array == places[d].array) buffer->place = {array, static_cast<int>(d)};
    }
    return array;
  }

  // Returns the spec of an argument's whole array. In jax, the first token of a chain of ordered effects is an empty bool array.
  buffers::ArraySpec SpecOf(size_t index) const {
    buffers::ArraySpec spec = program_.parameter_specs[index];
    const Shape& given = *args_->argument_lists[0][index]->shape;
    if (spec.dtype != buffers::DType::kToken || given.dtype != buffers::DType::kPred) return spec;
    spec.dtype = given.dtype;
    spec.dims = given.dims;
    return spec;
  }

  client::RunOptions Options() const {
    client::RunOptions options;
    const PJRT_ExecuteOptions& given = *args_->options;
    for (size_t i = 0; i < given.num_non_donatable_input_indices; ++i)
      options.non_donatable.push_back(static_cast<int32_t>(given.non_donatable_input_indices[i]));
    options.launch_id = given.launch_id;
    if (args_->execute_device != nullptr) options.devices = {args_->execute_device->id()};
    // All results become ready together, so the first one tells the end; jax asks about it anyway.
    const bool tell = args_->device_complete_events != nullptr && !program_.port.has_value();
    options.end = tell && program_.output_shapes.empty();
    options.ready = tell && !program_.output_shapes.empty();
    return options;
  }

  bool IsDonated(int32_t index, const std::vector<int32_t>& kept) const {
    const auto& donated = program_.info->donated_inputs;
    return std::find(donated.begin(), donated.end(), index) != donated.end() &&
           std::find(kept.begin(), kept.end(), index) == kept.end();
  }

  // Returns an error if a donated array is also another argument.
  absl::Status CheckDonated(const std::vector<int32_t>& kept, const std::vector<std::shared_ptr<SharedArray>>& arrays) const {
    if (program_.info->donated_inputs.empty()) return absl::OkStatus();
    std::vector<std::pair<const SharedArray*, int32_t>> sorted;
    for (size_t i = 0; i < arrays.size(); ++i) sorted.emplace_back(arrays[i].get(), static_cast<int32_t>(i));
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i) {
      const auto& [array, first] = sorted[i - 1];
      const int32_t second = sorted[i].second;
      if (sorted[i].first != array || !(IsDonated(first, kept) || IsDonated(second, kept))) continue;
      return absl::InvalidArgumentError(absl::StrCat("argument ", first, " of program ", program_.info->name, " is argument ",
                                                     second,
                                                     " too, and one of them is donated: pass a copy, or do not donate it"));
    }
    return absl::OkStatus();
  }

  // Deletes the buffers of donated arguments, whether or not the execution succeeds.
  void Donate(const std::vector<int32_t>& kept, const std::vector<std::shared_ptr<SharedArray>>& arrays) {
    for (int32_t index : program_.info->donated_inputs) {
      if (std::find(kept.begin(), kept.end(), index) != kept.end()) continue;
      arrays[index]->ForgetSingles();
      for (size_t d = 0; d < devices_.size(); ++d) {
        PJRT_Buffer* buffer = args_->argument_lists[d][index];
        std::lock_guard<std::mutex> lock(buffer->mu);
        buffer->place = {};
      }
    }
  }

  void Return(client::Run run) {
    std::shared_ptr<SharedArray> first;
    for (size_t o = 0; o < run.results.size(); ++o) {
      auto array = std::make_shared<SharedArray>(program_.session, std::move(run.results[o]), static_cast<int>(devices_.size()),
                                                 run.ready);
      for (size_t d = 0; d < devices_.size(); ++d) {
        PJRT_Memory* memory = MemoryOf(devices_[d], program_.output_kind_texts[o]);
        args_->output_lists[d][o] = NewBuffer(devices_[d], memory, program_.output_shapes[o], {array, static_cast<int>(d)});
      }
      if (first == nullptr) first = std::move(array);
    }
    if (args_->device_complete_events == nullptr) return;
    const Future<Unit> end = first == nullptr ? run.end : sent_.valid() ? ReadyOnceSent(first) : first->Ready();
    for (size_t d = 0; d < devices_.size(); ++d) args_->device_complete_events[d] = NewEvent(end);
  }

  Future<Unit> ReadyOnceSent(const std::shared_ptr<SharedArray>& array) const {
    auto promise = std::make_shared<Promise<Unit>>();
    Future<Unit> ready = promise->future();
    sent_.OnReady([array, promise](const absl::StatusOr<Unit>& sent) {
      if (!sent.ok()) return promise->Set(sent);
      array->Ready().OnReady([promise](const absl::StatusOr<Unit>& status) { promise->Set(status); });
    });
    return ready;
  }

  PJRT_LoadedExecutable_Execute_Args* const args_;
  const Program& program_;
  const absl::Span<PJRT_Device* const> devices_;
  Future<Unit> sent_;  // of a port: set when its program's call is sent
};

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const Helping help(args->executable->client->helped);
  const std::shared_ptr<const Program> program = args->executable->get();
  if (program == nullptr) return NewError(absl::InvalidArgumentError("Execute() called on a deleted executable"));
  return NewError(Execution(args, *program).Run());
}

}  // namespace

void FillExecuteEntries(PJRT_Api* api) {
  api->PJRT_LoadedExecutable_Execute = Execute;
  api->PJRT_ExecuteContext_Create = [](PJRT_ExecuteContext_Create_Args* args) -> PJRT_Error* {
    args->context = new PJRT_ExecuteContext;
    return nullptr;
  };
  api->PJRT_ExecuteContext_Destroy = [](PJRT_ExecuteContext_Destroy_Args* args) -> PJRT_Error* {
    delete args->context;
    return nullptr;
  };
}

}  // namespace pw::pathways_pjrt
