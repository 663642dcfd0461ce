// LooseLinks: links without peers. The test calls the handler, and sees the number of frames sent.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/dataflow/links.h"

namespace pw::dataflow {

struct LooseLinks : Links {
  void Start(Handler* handler) override { this->handler = handler; }
  void Send(HostId to, std::string, std::vector<Bytes>, net::Lane) override { ++sent[to]; }
  void Disconnect(HostId, const absl::Status& why) override { ADD_FAILURE() << why; }
  Handler* handler = nullptr;
  std::map<HostId, int> sent;
};

}  // namespace pw::dataflow
