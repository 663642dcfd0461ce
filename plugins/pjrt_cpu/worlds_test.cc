// Tests the two ways in which the processes of a computation find each other, with a host that has several clients in one process.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/pjrt_cpu/c_api_testing.h"

namespace pw::pjrt_cpu::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// The host's store.
class HostStore {
 public:
  void Offer(PJRT_Client_Create_Args* args) {
    args->kv_get_callback = [](PJRT_KeyValueGetCallback_Args* get) { return static_cast<HostStore*>(get->user_arg)->Get(get); };
    args->kv_get_user_arg = this;
    args->kv_put_callback = [](PJRT_KeyValuePutCallback_Args* put) { return static_cast<HostStore*>(put->user_arg)->Put(put); };
    args->kv_put_user_arg = this;
  }
  // No wait ends with a value any more.
  void End(const std::string& why) {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = why;
    changed_.notify_all();
  }
  // Blocks until somebody waits for a key that has no value.
  void AwaitWaiter() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return waiters_ > 0; });
  }
  std::map<std::string, std::string> values() {
    std::lock_guard<std::mutex> lock(mu_);
    return values_;
  }

 private:
  PJRT_Error* Get(PJRT_KeyValueGetCallback_Args* args) {
    std::unique_lock<std::mutex> lock(mu_);
    const std::string key(args->key, args->key_size);
    ++waiters_;
    changed_.notify_all();
    const bool in_time = changed_.wait_for(lock, std::chrono::milliseconds(args->timeout_in_ms),
                                           [&] { return values_.count(key) > 0 || !ended_.empty(); });
    --waiters_;
    if (!in_time) return (*args->callback_error)(PJRT_Error_Code_DEADLINE_EXCEEDED, "late", 4);
    if (values_.count(key) == 0) return (*args->callback_error)(PJRT_Error_Code_UNAVAILABLE, ended_.data(), ended_.size());
    const std::string& value = values_[key];
    args->value = static_cast<char*>(std::malloc(value.size() + 1));
    std::memcpy(args->value, value.data(), value.size());
    args->value_size = value.size();
    args->value_deleter_callback = [](char* bytes) { std::free(bytes); };
    return nullptr;
  }
  PJRT_Error* Put(PJRT_KeyValuePutCallback_Args* args) {
    std::lock_guard<std::mutex> lock(mu_);
    values_[std::string(args->key, args->key_size)] = std::string(args->value, args->value_size);
    changed_.notify_all();
    return nullptr;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::string ended_;
  int waiters_ = 0;
};

PJRT_NamedValue Number(const char* name, int64_t value) {
  PJRT_NamedValue option{PJRT_NamedValue_STRUCT_SIZE};
  option.name = name;
  option.name_size = std::strlen(name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = value;
  option.value_size = 1;
  return option;
}

PJRT_NamedValue Text(const char* name, const char* value) {
  PJRT_NamedValue option{PJRT_NamedValue_STRUCT_SIZE};
  option.name = name;
  option.name_size = std::strlen(name);
  option.type = PJRT_NamedValue_kString;
  option.string_value = value;
  option.value_size = std::strlen(value);
  return option;
}

// A client, or the error for which there is none.
struct Made {
  Outcome outcome;
  PJRT_Client* client = nullptr;
};

Made MakeNode(HostStore* store, int node, int nodes, int devices, const char* world) {
  const std::vector<PJRT_NamedValue> options = {Number("cpu_device_count", devices), Number("node_id", node),
                                                Number("num_nodes", nodes), Text("world", world)};
  PW_ARGS(PJRT_Client_Create_Args, create);
  create.create_options = options.data();
  create.num_options = options.size();
  store->Offer(&create);
  const Outcome outcome = Take(Api()->PJRT_Client_Create(&create));
  return {outcome, create.client};
}

// The id and the process of each of a client's devices.
std::vector<std::pair<int, int>> DevicesOf(PJRT_Client* client) {
  PW_ARGS(PJRT_Client_Devices_Args, list);
  list.client = client;
  Check(Api()->PJRT_Client_Devices(&list));
  std::vector<std::pair<int, int>> devices;
  for (size_t i = 0; i < list.num_devices; ++i) {
    PW_ARGS(PJRT_Device_GetDescription_Args, get);
    get.device = list.devices[i];
    Check(Api()->PJRT_Device_GetDescription(&get));
    PW_ARGS(PJRT_DeviceDescription_Id_Args, id);
    id.device_description = get.device_description;
    Check(Api()->PJRT_DeviceDescription_Id(&id));
    PW_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
    process.device_description = get.device_description;
    Check(Api()->PJRT_DeviceDescription_ProcessIndex(&process));
    devices.emplace_back(id.id, process.process_index);
  }
  return devices;
}

void DestroyClient(PJRT_Client* client) {
  PW_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client;
  Check(Api()->PJRT_Client_Destroy(&args));
}

TEST(Worlds, FormThroughTheHostsStoreAlone) {
  HostStore store;
  auto second = std::async(std::launch::async, [&] { return MakeNode(&store, 1, 2, 2, "key_value"); });
  const Made first = MakeNode(&store, 0, 2, 1, "key_value"), other = second.get();
  ASSERT_TRUE(first.outcome.ok()) << first.outcome.message;
  ASSERT_TRUE(other.outcome.ok()) << other.outcome.message;
  for (PJRT_Client* client : {first.client, other.client}) {
    EXPECT_THAT(DevicesOf(client), ElementsAre(Pair(0, 0), Pair(2048, 1), Pair(2049, 1))) << "each knows how many the other has";
  }
  EXPECT_THAT(store.values(),
              ElementsAre(Pair("pathways-cpu/world/0", HasSubstr("1 ")), Pair("pathways-cpu/world/1", HasSubstr("2 "))));
  DestroyClient(first.client);
  DestroyClient(other.client);
}

TEST(Worlds, AreNotMadeWithoutAllTheirNodes) {
  HostStore store;
  auto first = std::async(std::launch::async, [&] { return MakeNode(&store, 0, 2, 1, "key_value"); });
  store.AwaitWaiter();
  store.End("host 'b' is lost");
  const Made made = first.get();
  EXPECT_EQ(made.outcome.code, PJRT_Error_Code_UNAVAILABLE);
  EXPECT_THAT(made.outcome.message, HasSubstr("host 'b' is lost"));
}

TEST(Worlds, OfClientsThatComeAndGoNeedNobodyAtTheirStart) {
  HostStore store;
  const Made made = MakeNode(&store, 0, 3, 2, "elastic");
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.message;
  EXPECT_EQ(DevicesOf(made.client).size(), 6u);
  EXPECT_THAT(store.values(), ElementsAre(Pair("pathways-cpu/process/0", HasSubstr(" "))));
  DestroyClient(made.client);
}

TEST(Worlds, WrongOptionsAreNamed) {
  HostStore store;
  EXPECT_THAT(MakeNode(&store, 0, 2, 1, "flat").outcome.message, HasSubstr("world must be 'elastic' or 'key_value'"));
  EXPECT_THAT(MakeNode(&store, 2, 2, 1, "key_value").outcome.message, HasSubstr("node_id is 2, but num_nodes is 2"));
}

}  // namespace
}  // namespace pw::pjrt_cpu::testing
