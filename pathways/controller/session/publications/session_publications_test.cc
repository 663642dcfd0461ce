#include "pathways/controller/session/publications/session_publications.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
using Specs = std::vector<buffers::ArraySpec>;
using Question = session::PublishedQuestion;

struct PartOptions {
  uint32_t part = 0, parts = 1, first = 0;  // `first`: the number of its first array
};

Bytes Part(bool read, const Specs& specs, PartOptions options = {}) {
  ::pathways::v1::Program program;
  auto& publication = *program.mutable_publication();
  publication.set_name("weights");
  publication.set_read(read);
  publication.set_part(options.part);
  publication.set_parts(options.parts);
  publication.set_note("[\"w\"]");
  for (size_t i = 0; i < specs.size(); ++i) {
    auto& sharding = *program.add_shardings();
    for (DeviceId device : specs[i].sharding.devices()) sharding.add_devices(device.v);
    sharding.set_op_sharding(program::ShardingToOpSharding(specs[i].sharding).SerializeAsString());
    auto& array = *publication.add_arrays();
    array.set_number(options.first + static_cast<uint32_t>(i));
    array.mutable_type()->set_dtype(static_cast<int>(specs[i].dtype));
    for (int64_t dim : specs[i].dims) array.mutable_type()->add_dims(dim);
    array.mutable_type()->set_sharding(static_cast<uint32_t>(i));
  }
  return Bytes::FromString(program.SerializeAsString());
}

// Two hosts of two devices, a session that publishes and one that reads.
class PublicationsTest : public ::testing::Test {
 protected:
  PublicationsTest() : t_(2, 2) {
    t_.Open();
    publisher_ = t_.session;
    t_.Open();
    reader_ = t_.session;
  }
  ~PublicationsTest() override { publisher_ = reader_ = nullptr; }

  absl::StatusOr<std::string> Ask(const std::shared_ptr<Session>& session, Question::What what, uint64_t above = 0,
                                  absl::Duration limit = {}) {
    return t_.Await<std::string>([&](auto done) { session->AskPublished({what, "weights", above, limit}, std::move(done)); });
  }
  absl::StatusOr<Handle> Compile(const std::shared_ptr<Session>& session, Bytes program) {
    auto info = t_.Await<std::shared_ptr<const ExecutableInfo>>(
        [&](auto done) { session->CompileProgram(std::move(program), std::move(done)); });
    if (!info.ok()) return info.status();
    return (*info)->handle;
  }
  absl::Status Execute(const std::shared_ptr<Session>& session, Handle program, std::vector<Handle> args,
                       std::vector<Handle> results) {
    ExecuteRequest request;
    request.executable = program;
    request.args = std::move(args);
    request.results = std::move(results);
    return session->Execute(request).status();
  }
  // Puts the text as an array of the publisher's, and publishes it.
  absl::Status Publish(const std::string& text) {
    t_.session = publisher_;
    const Handle array = next_++;
    absl::Status status = t_.Put(array, kOnFirst, text);
    status.Update(Ask(publisher_, Question::What::kClaim).status());
    const auto program = Compile(publisher_, Part(false, {kOnFirst}));
    status.Update(program.status());
    if (status.ok()) status = Execute(publisher_, *program, {array}, {});
    status.Update(publisher_->Destruct({{array}}));
    t_.Run();
    return status;
  }
  absl::StatusOr<std::string> Read(const buffers::ArraySpec& spec) {
    t_.session = reader_;
    auto program = Compile(reader_, Part(true, {spec}));
    if (!program.ok()) return program.status();
    const Handle result = next_++;
    absl::Status status = Execute(reader_, *program, {}, {result});
    if (!status.ok()) return status;
    auto text = t_.FetchRows(result);
    status = reader_->Destruct({{result}});
    t_.Run();
    return status.ok() ? text : status;
  }
  size_t Shards() { return t_.workers[0]->num_shards() + t_.workers[1]->num_shards(); }

  const buffers::ArraySpec kOnFirst = TestCluster::Rows(0, 2, {4}), kOnSecond = TestCluster::Rows(2, 2, {4});
  TestCluster t_;
  std::shared_ptr<Session> publisher_, reader_;
  Handle next_ = 100;
};

TEST_F(PublicationsTest, GoFromHostToHostAndOutliveTheArrayThatWasPublished) {
  ASSERT_TRUE(Publish("abcd").ok());
  EXPECT_EQ(*Ask(reader_, Question::What::kAwait), R"({"version":1,"note":"[\"w\"]","arrays":[{"dtype":6,"dims":[4]}]})");
  EXPECT_EQ(*Read(kOnSecond), "abcd");
  EXPECT_EQ(t_.hub.bytes, 4u);
  EXPECT_EQ(Shards(), 2u) << "of the published array alone";
}

TEST_F(PublicationsTest, WhereTheReaderWantsThemAlreadyNothingMoves) {
  ASSERT_TRUE(Publish("abcd").ok());
  ASSERT_TRUE(Ask(reader_, Question::What::kAwait).ok());
  EXPECT_EQ(*Read(kOnFirst), "abcd");
  EXPECT_EQ(t_.workers[0]->Count(Command::kMove), 0);
}

TEST_F(PublicationsTest, AVersionThatSomebodyReadsStaysAsItIs) {
  ASSERT_TRUE(Publish("abcd").ok());
  ASSERT_TRUE(Ask(reader_, Question::What::kAwait).ok());
  ASSERT_TRUE(Publish("efgh").ok());
  EXPECT_EQ(Shards(), 4u) << "both versions";
  EXPECT_EQ(*Read(kOnSecond), "abcd");
  EXPECT_EQ(Shards(), 2u) << "the old one has gone with its last reader";
  EXPECT_THAT(*Ask(reader_, Question::What::kAwait, 1), HasSubstr("\"version\":2"));
  EXPECT_EQ(*Read(kOnSecond), "efgh");
  EXPECT_THAT(Read(kOnSecond).status().ToString(), HasSubstr("or has read it already"));
}

TEST_F(PublicationsTest, AReaderWaitsForANewerVersion) {
  std::vector<std::string> answers;
  auto wait = [&](uint64_t above) {
    reader_->AskPublished({Question::What::kAwait, "weights", above, absl::Seconds(3)}, [&](absl::StatusOr<std::string> answer) {
      answers.push_back(answer.value_or(answer.status().ToString()));
    });
  };
  wait(0);
  wait(1);
  t_.Run();
  EXPECT_TRUE(answers.empty());
  ASSERT_TRUE(Publish("abcd").ok());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers[0], HasSubstr("\"version\":1"));
  t_.timers.Advance(absl::Seconds(5));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1], "{}");
  wait(1);
  reader_ = nullptr;
  t_.session = publisher_;
  t_.Run();
  EXPECT_THAT(answers.at(2), HasSubstr("CANCELLED"));
}

TEST_F(PublicationsTest, ANameHasOnePublisherAndItsNumbersGoOn) {
  ASSERT_TRUE(Publish("abcd").ok());
  EXPECT_EQ(Ask(reader_, Question::What::kClaim).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Ask(reader_, Question::What::kAwait).ok());
  publisher_ = nullptr;
  t_.session = reader_;
  t_.Run();
  EXPECT_EQ(Shards(), 0u);
  EXPECT_THAT(Read(kOnSecond).status().ToString(), HasSubstr("has ended: wait for a newer version"));
  EXPECT_EQ(*Ask(reader_, Question::What::kClaim), R"({"version":1})");
  publisher_ = reader_;
  ASSERT_TRUE(Publish("efgh").ok());
  EXPECT_THAT(*Ask(reader_, Question::What::kAwait, 1), HasSubstr("\"version\":2"));
  EXPECT_EQ(*Read(kOnSecond), "efgh") << "by the session that has published it";
  EXPECT_EQ(*Ask(publisher_, Question::What::kWithdraw), "{}");
  t_.Run();
  EXPECT_EQ(Shards(), 0u);
  EXPECT_EQ(Execute(publisher_, *Compile(publisher_, Part(false, {kOnFirst})), {}, {}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(PublicationsTest, AVersionHasAllItsPartsOrIsNotSeen) {
  t_.session = publisher_;
  ASSERT_TRUE(t_.Put(1, kOnFirst, "abcd").ok());
  ASSERT_TRUE(t_.Put(2, kOnSecond, "efgh").ok());
  ASSERT_TRUE(Ask(publisher_, Question::What::kClaim).ok());
  const Handle first = *Compile(publisher_, Part(false, {kOnFirst}, {0, 2, 0})),
               second = *Compile(publisher_, Part(false, {kOnSecond}, {1, 2, 1}));
  ASSERT_TRUE(Execute(publisher_, first, {1}, {}).ok());
  t_.Run();
  auto answer = Ask(reader_, Question::What::kAwait);
  EXPECT_EQ(answer.status(), absl::CancelledError("still waiting"));
  ASSERT_TRUE(Execute(publisher_, second, {2}, {}).ok());
  t_.Run();
  EXPECT_THAT(*Ask(reader_, Question::What::kAwait), HasSubstr("\"version\":1"));
  EXPECT_EQ(*Read(kOnSecond), "abcd");
  t_.session = reader_;
  ASSERT_TRUE(Execute(reader_, *Compile(reader_, Part(true, {kOnFirst}, {0, 0, 1})), {}, {50}).ok());
  EXPECT_EQ(*t_.FetchRows(50), "efgh");
  ASSERT_TRUE(Execute(publisher_, first, {1}, {}).ok());
  EXPECT_THAT(Execute(publisher_, first, {1}, {}).ToString(), HasSubstr("came twice"));
}

TEST_F(PublicationsTest, AnErrorIsNotPublished) {
  ASSERT_TRUE(Publish("abcd").ok());
  ASSERT_TRUE(publisher_->MakeErrorArray(7, kOnFirst, absl::DataLossError("gone")).ok());
  ASSERT_TRUE(Execute(publisher_, *Compile(publisher_, Part(false, {kOnFirst})), {7}, {}).ok());
  t_.Run();
  EXPECT_THAT(*Ask(reader_, Question::What::kAwait), HasSubstr("\"version\":1"));
  EXPECT_EQ(*Read(kOnSecond), "abcd");
  ASSERT_TRUE(Publish("efgh").ok());
  EXPECT_THAT(*Ask(reader_, Question::What::kAwait), HasSubstr("\"version\":3"));
}

TEST_F(PublicationsTest, ALostHostIsToldToItsReaders) {
  ASSERT_TRUE(Publish("abcd").ok());
  ASSERT_TRUE(Ask(reader_, Question::What::kAwait).ok());
  t_.workers[0]->Die();
  t_.Run();
  EXPECT_EQ(Read(kOnSecond).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PublicationsTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Compile(publisher_, Part(false, {})).status().ToString(), HasSubstr("0 arrays"));
  EXPECT_THAT(Compile(publisher_, Part(false, {kOnFirst}, {2, 2, 0})).status().ToString(), HasSubstr("part 2 of 2"));
  EXPECT_THAT(Compile(publisher_, Part(false, {TestCluster::Rows(6, 2, {4})})).status().ToString(), HasSubstr("does not exist"));
  ASSERT_TRUE(Publish("abcd").ok());
  EXPECT_THAT(Execute(publisher_, *Compile(publisher_, Part(false, {kOnFirst})), {}, {}).ToString(),
              HasSubstr("takes 1 arrays, not 0"));
  ASSERT_TRUE(Ask(reader_, Question::What::kAwait).ok());
  EXPECT_THAT(Read(TestCluster::Rows(2, 2, {8})).status().ToString(), HasSubstr("array 0 is"));
  t_.session = reader_;
  ASSERT_TRUE(Execute(reader_, *Compile(reader_, Part(true, {kOnSecond}, {0, 0, 5})), {}, {60}).ok());
  EXPECT_THAT(t_.Ready({60}).ToString(), HasSubstr("no number 5"));
}

}  // namespace
}  // namespace pw::controller
