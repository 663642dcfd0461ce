#include "pathways/controller/cluster/observation/gang_report.h"

#include <algorithm>
#include <map>

#include "pathways/base/json_writer.h"

namespace pw::controller {
namespace {

int64_t Id(uint64_t number) { return static_cast<int64_t>(number); }

class Writer {
 public:
  std::string Write(const GangReport& report) {
    json_.BeginObject()
        .Key("now")
        .Int(report.now_ns / 1000)
        .Key("last")
        .Int(Id(report.last))
        .Key("missed")
        .Int(Id(Missed(report)));
    json_.Key("ended").BeginArray();
    for (const RecentGang& gang : report.ended) Add(gang);
    json_.EndArray().Key("underway").BeginArray();
    for (size_t i = 0; i < std::min(report.underway.size(), GangReport::kMostUnderway); ++i) Add(report.underway[i]);
    json_.EndArray().Key("programs").BeginArray();
    for (const auto& [id, label] : labels_) Add(*label);
    return json_.EndArray().EndObject().Take();
  }

 private:
  static uint64_t Missed(const GangReport& report) {
    const uint64_t known = report.last - report.ended.size();
    return known > report.after ? known - report.after : 0;
  }
  int64_t Program(const std::shared_ptr<const GangLabel>& label) {
    if (label == nullptr) return 0;
    labels_.emplace(label->executable, label.get());
    return Id(label->executable.v);
  }
  void Add(const RecentGang& gang) {
    json_.BeginArray().Int(Id(gang.number)).Int(Id(gang.gang.v)).Int(Id(gang.session.v)).Int(Program(gang.label));
    json_.Int(gang.granted_ns / 1000).Int(gang.done_ns / 1000).Int(gang.busy_ns / 1000).Int(gang.failed ? 1 : 0).EndArray();
  }
  void Add(const Gangs::Underway& gang) {
    json_.BeginArray()
        .Int(Id(gang.gang.v))
        .Int(Id(gang.session.v))
        .Int(Program(gang.label))
        .Int(gang.granted_ns / 1000)
        .EndArray();
  }
  void Add(const GangLabel& label) {
    json_.BeginObject().Key("id").Int(Id(label.executable.v)).Key("name").String(label.name).Key("devices").BeginArray();
    for (const auto& [first, last] : label.devices) json_.BeginArray().Int(first.v).Int(last.v).EndArray();
    json_.EndArray().EndObject();
  }

  JsonWriter json_;
  std::map<ExecutableId, const GangLabel*> labels_;
};

}  // namespace

std::string ToJson(const GangReport& report) { return Writer().Write(report); }

}  // namespace pw::controller
