"""A service.db that is lost: the archive has a copy, and the next start makes the file anew from it, from platters alone if need be."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from serving import START_S, Own, connect, wait_until
from wire import Account, refused

COPY = ".fulgurite/service.jsonl"
UNTIL = (datetime.now(UTC) + timedelta(days=400)).replace(microsecond=0)
EARLIER = (datetime.now(UTC) + timedelta(days=40)).replace(microsecond=0)
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": "second"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::plain/*"}],
}


def lose(own: Own, *names: str) -> None:
    for name in names:
        for path in own.archive.glob(f"{name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            if path.name == "staging":
                path.mkdir()


def copies(own: Own) -> list[dict]:
    listed = own.run("--json", "ls", "--versions", COPY)
    return [json.loads(line) for line in listed.stdout.splitlines()]


def listed(own: Own) -> list[dict]:
    """The accounts, but for their keys."""
    listed = json.loads(own.run("--json", "accounts", "list").stdout)
    return [{name: value for name, value in account.items() if name != "access_keys"} for account in listed]


def tags(**values: str) -> dict:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in values.items()]}


def furnish(own: Own) -> dict[str, str]:
    """Buckets with all that is set on them, and versions with what is said later. Gives the versions by what was said."""
    s3, second = connect(own.server, own.account), connect(own.server, own.add_account("second"))
    s3.create_bucket(Bucket="plain")
    s3.put_bucket_tagging(Bucket="plain", Tagging=tags(colour="blue + green", empty=""))
    s3.put_bucket_policy(Bucket="plain", Policy=json.dumps(POLICY))
    pages = {"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"]}
    s3.put_bucket_cors(Bucket="plain", CORSConfiguration={"CORSRules": [pages]})
    s3.put_public_access_block(Bucket="plain", PublicAccessBlockConfiguration={"BlockPublicPolicy": True})
    s3.put_object(Bucket="plain", Key="object", Body=b"plain", Tagging="put=with", Metadata={"a": "b"})
    second.create_bucket(Bucket="of-the-second")
    second.put_bucket_versioning(Bucket="of-the-second", VersioningConfiguration={"Status": "Suspended"})
    second.put_object(Bucket="of-the-second", Key="object", Body=b"second")
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    default = {"Mode": "GOVERNANCE", "Years": 2}
    s3.put_object_lock_configuration(
        Bucket="locked", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": default}}
    )
    put = {key: s3.put_object(Bucket="locked", Key=key, Body=key.encode())["VersionId"] for key in ("tagged", "kept", "held", "freed")}
    which = {key: {"Bucket": "locked", "Key": key, "VersionId": version} for key, version in put.items()}
    s3.put_object_tagging(**which["tagged"], Tagging=tags(said="later"))
    bypass = {"BypassGovernanceRetention": True}
    s3.put_object_retention(**which["kept"], Retention={"Mode": "COMPLIANCE", "RetainUntilDate": UNTIL}, **bypass)
    s3.put_object_retention(**which["freed"], Retention={}, **bypass)
    s3.put_object_legal_hold(**which["held"], LegalHold={"Status": "ON"})
    s3.put_object_retention(**which["held"], Retention={"Mode": "GOVERNANCE", "RetainUntilDate": EARLIER}, **bypass)
    return put


def known(s3, put: dict[str, str]) -> dict:
    """Everything that service.db knows of what `furnish` made, as clients are told it."""

    def told(call, **arguments):
        try:
            return {name: value for name, value in call(**arguments).items() if name != "ResponseMetadata"}
        except s3.exceptions.ClientError as error:
            return error.response["Error"]["Code"]

    found = {"buckets": told(s3.list_buckets)}
    for bucket in ("plain", "of-the-second", "locked"):
        for call in (
            s3.get_bucket_versioning,
            s3.get_bucket_tagging,
            s3.get_bucket_policy,
            s3.get_bucket_cors,
            s3.get_public_access_block,
            s3.get_object_lock_configuration,
            s3.get_bucket_acl,
            s3.list_object_versions,
        ):
            found[bucket, call.__name__] = told(call, Bucket=bucket)
    for key, version in put.items():
        for call in (s3.get_object_tagging, s3.get_object_retention, s3.get_object_legal_hold, s3.head_object):
            found[key, call.__name__] = told(call, Bucket="locked", Key=key, VersionId=version)
    found["plain tags"] = told(s3.get_object_tagging, Bucket="plain", Key="object")
    return found


@pytest.mark.parametrize("lost", [["service.db"], ["service.db", "catalogue.db", "staging"]], ids=["service", "all-but-platters-and-keys"])
def test_a_lost_service_db_is_made_anew_from_the_copy_in_the_archive(own, lost):
    with own:
        put = furnish(own)
        assert own.run("accounts", "quota", "second", "--open", "7").returncode == 0
        accounts = listed(own)
        before = known(connect(own.server, own.account), put)
        assert before["kept", "get_object_retention"]["Retention"] == {"Mode": "COMPLIANCE", "RetainUntilDate": UNTIL}
    assert own.run("flush").returncode == 0
    lose(own, *lost)
    if "catalogue.db" in lost:
        # Without its mark, staging counts as a disk that isn't mounted.
        assert own.run("catalogue", "rebuild", "--without-unseen").returncode == 3
    old = own.account
    with own:
        assert own.said["recovered"].items() >= {"accounts": 2, "buckets": 3, "versions": 4}.items()
        assert (own.said["account"], own.said["new"]) == ("main", False)
        with refused("InvalidAccessKeyId", 403):
            connect(own.server, old).list_buckets()
        s3 = connect(own.server, own.account)
        assert known(s3, put) == before
        assert listed(own) == accounts
        assert s3.get_object(Bucket="plain", Key="object")["Body"].read() == b"plain"
        for key in ("kept", "held"):
            with refused("AccessDenied", 403):
                s3.delete_object(Bucket="locked", Key=key, VersionId=put[key], BypassGovernanceRetention=True)
        s3.delete_object(Bucket="locked", Key="freed", VersionId=put["freed"])
        added = json.loads(own.run("--json", "accounts", "key", "second").stdout)
        second = connect(own.server, Account(added["access_key"], added["secret_key"]))
        assert [bucket["Name"] for bucket in second.list_buckets()["Buckets"]] == ["of-the-second"]
        assert second.get_object(Bucket="plain", Key="object")["Body"].read() == b"plain"
    log = own.log.read_text()
    assert "was missing" in log and "changes after that time are missing" in log, log
    with own:
        assert "recovered" not in own.said and "access_key" not in own.said


def test_a_copy_is_put_before_a_set_is_written(own):
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="moon", Body=b"moon")
        own.kill()
        assert copies(own) == [], "a kill leaves no time for one"
        settings = own.archive / "service.toml"
        settings.write_text(settings.read_text().replace("flush_after_hours = 24", "flush_after_hours = 0"))
        own.start()
        until = time.monotonic() + START_S
        while (staged := json.loads(own.run("--json", "status").stdout)["staged"]["versions"]) and time.monotonic() < until:
            time.sleep(0.1)
        assert staged == 0
        own.kill()
        lose(own, "service.db", "catalogue.db", "staging")
        # Without its mark, staging counts as a disk that isn't mounted.
        assert own.run("catalogue", "rebuild", "--without-unseen").returncode == 3
        own.start()
        assert own.said["recovered"]["buckets"] == 1
        assert connect(own.server, own.account).get_object(Bucket="photos", Key="moon")["Body"].read() == b"moon"


def test_a_copy_takes_the_place_of_the_one_before_and_none_is_put_where_nothing_changed(own):
    with own:
        pass
    [first] = copies(own)
    with own:
        connect(own.server, own.account).list_buckets()
    assert copies(own) == [first]
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="photos")
        # Objects alone are none of the service's state.
        client.put_object(Bucket="photos", Key="moon", Body=b"moon")
    [second] = copies(own)
    assert second["version"] > first["version"]
    with own:
        connect(own.server, own.account).put_object(Bucket="photos", Key="moon", Body=b"another moon")
    assert copies(own) == [second]


def test_a_service_db_that_is_lost_before_its_first_copy_is_missed(own):
    own.start()
    connect(own.server, own.account).create_bucket(Bucket="photos")
    connect(own.server, own.account).put_object(Bucket="photos", Key="moon", Body=b"moon")
    own.kill()
    assert copies(own) == []
    lose(own, "service.db")
    for arguments in (("serve", "--listen", "127.0.0.1:0"), ("accounts", "list"), ("rm", "photos/moon")):
        ran = own.run(*arguments)
        assert ran.returncode == 1 and "service.db is missing" in ran.stderr and "--without-copy" in ran.stderr, ran
    assert not (own.archive / "service.db").exists()
    own.start("--without-copy")
    assert (own.said["account"], own.said["new"]) == ("main", False)
    assert "these folders of the archive have no bucket: photos." in own.log.read_text()
    own.stop()


@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_a_service_db_that_is_lost_under_a_running_server_is_noticed_and_saved(own, way):
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="before")
        (own.archive / "service.db").rename(own.archive / "away")
        if way == "replaced":
            shutil.copy(own.archive / "away", own.archive / "service.db")
        wait_until("it is not ready", lambda: own.get("/-/ready")[0] == 503)
        assert f"service.db was {way} under the running server" in own.get("/-/ready")[1]
        assert own.get("/-/health")[0] == 200
        with refused("ServiceUnavailable", 503):
            client.create_bucket(Bucket="after")
        client.put_object(Bucket="before", Key="moon", Body=b"moon")
        wait_until("there is a copy", lambda: copies(own))
        # As a power cut would.
        own.kill()
        lose(own, "service.db")
        own.start()
        client = connect(own.server, own.account)
        assert own.said["recovered"].items() >= {"accounts": 1, "buckets": 1}.items()
        assert client.get_object(Bucket="before", Key="moon")["Body"].read() == b"moon"
        assert own.get("/-/ready") == (200, "ok\n")


def test_a_service_db_that_is_moved_back_after_it_was_replaced_is_no_old_copy(own):
    own.start()
    connect(own.server, own.account).create_bucket(Bucket="before")
    (own.archive / "service.db").rename(own.archive / "away")
    shutil.copy(own.archive / "away", own.archive / "service.db")
    wait_until("there is a copy", lambda: copies(own))
    own.stop()
    (own.archive / "away").rename(own.archive / "service.db")
    with own:
        assert [bucket["Name"] for bucket in connect(own.server, own.account).list_buckets()["Buckets"]] == ["before"]
        assert own.get("/-/ready") == (200, "ok\n")


def put_back_an_old_copy(own: Own) -> str:
    """A service.db without the bucket and the legal hold that came after it. Gives the version that is held."""
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        version = client.put_object(Bucket="locked", Key="object", Body=b"held")["VersionId"]
    shutil.copy(own.archive / "service.db", own.archive / "old")
    with own:
        client = connect(own.server, own.account)
        client.put_object_legal_hold(Bucket="locked", Key="object", VersionId=version, LegalHold={"Status": "ON"})
        client.create_bucket(Bucket="later")
        client.put_object(Bucket="later", Key="object", Body=b"later")
    shutil.copy(own.archive / "old", own.archive / "service.db")
    return version


def test_an_old_copy_of_service_db_is_refused_and_the_backup_has_what_it_lacks(own):
    version = put_back_an_old_copy(own)
    before = copies(own)
    serve = ("serve", "--listen", "127.0.0.1:0")
    for arguments in (serve, (*serve, "--without-copy"), ("accounts", "list"), ("rm", "locked/object")):
        ran = own.run(*arguments)
        assert ran.returncode == 1 and "service.db is an old copy" in ran.stderr, ran
        assert "service.db away" in ran.stderr and "--without-newer-copy" in ran.stderr, ran
    assert copies(own) == before
    (own.archive / "service.db").rename(own.archive / "away")
    with own:
        assert own.said["recovered"].items() >= {"buckets": 2, "versions": 1}.items()
        client = connect(own.server, own.account)
        with refused("AccessDenied", 403):
            client.delete_object(Bucket="locked", Key="object", VersionId=version)
        assert client.get_object(Bucket="later", Key="object")["Body"].read() == b"later"
    with own:
        assert own.get("/-/ready") == (200, "ok\n")


def test_an_old_copy_of_service_db_is_used_if_told_once_and_the_newer_backup_is_kept(own):
    version = put_back_an_old_copy(own)
    [newer] = copies(own)
    own.start("--without-newer-copy")
    assert "service.db is used although it is older than the state backup" in own.log.read_text()
    assert f"get --version {newer['version']} {COPY}" in own.log.read_text()
    # No backup of the old copy is put.
    own.kill()
    assert own.run("accounts", "list").returncode == 0
    with own:
        client = connect(own.server, own.account)
        assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["locked"]
    newest, kept = copies(own)
    assert kept == newer and newest["version"] == newer["version"] + 1
    assert '"later"' not in own.run("get", COPY, "-").stdout
    assert '"later"' in own.run("get", "--version", str(newer["version"]), COPY, "-").stdout
    with own:
        client = connect(own.server, own.account)
        client.delete_object(Bucket="locked", Key="object", VersionId=version)
        client.create_bucket(Bucket="another")
    # An old copy without that needs another decision.
    shutil.copy(own.archive / "old", own.archive / "service.db")
    assert "service.db is an old copy" in own.run("serve", "--listen", "127.0.0.1:0").stderr


def test_a_file_is_no_old_copy_after_a_kill_or_if_the_newest_backup_is_lost(own, tmp_path):
    # Unencrypted, because the keys of replaced backups are destroyed.
    assert own.run("init", f"--store={tmp_path / 'd1'}", "--clear-text").returncode == 0
    with own:
        connect(own.server, own.account).create_bucket(Bucket="on-a-platter")
    assert own.run("flush").returncode == 0
    with own:
        connect(own.server, own.account).create_bucket(Bucket="in-staging")
    own.start()
    connect(own.server, own.account).create_bucket(Bucket="in-no-backup")
    own.kill()
    own.start()
    own.kill()
    # The backup on the platter is older than the file.
    lose(own, "catalogue.db", "staging")
    assert own.run("catalogue", "rebuild", "--without-unseen").returncode == 3
    with own:
        assert len(connect(own.server, own.account).list_buckets()["Buckets"]) == 3
    newest, of_the_platter = copies(own)
    assert newest["version"] > of_the_platter["version"]


def test_what_changed_after_the_last_copy_is_missing_and_its_folder_is_told(own):
    with own:
        connect(own.server, own.account).create_bucket(Bucket="before")
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="after")
        client.put_object(Bucket="after", Key="object", Body=b"still there")
        own.kill()
        lose(own, "service.db")
        own.start()
        client = connect(own.server, own.account)
        assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["before"]
        assert "these folders of the archive have no bucket: after." in own.log.read_text()
        client.create_bucket(Bucket="after")
        assert client.get_object(Bucket="after", Key="object")["Body"].read() == b"still there"


def test_nothing_begins_an_empty_service_where_there_is_a_copy_unless_told(own):
    with own:
        connect(own.server, own.account).create_bucket(Bucket="photos")
    [copy] = copies(own)
    lose(own, "service.db")
    refused_ = own.run("accounts", "list")
    assert refused_.returncode == 1 and "fulgurite serve" in refused_.stderr, refused_
    assert not (own.archive / "service.db").exists()
    own.start("--without-copy")
    assert "recovered" not in own.said and own.said["account"] == "main"
    assert connect(own.server, own.account).list_buckets()["Buckets"] == []
    own.stop()
    newest, kept = copies(own)
    assert kept == copy and newest["version"] == copy["version"] + 1, "the copy that was passed over stays"
    with own:
        connect(own.server, own.account).create_bucket(Bucket="another")
    newest, kept = copies(own)
    assert kept == copy and newest["version"] == copy["version"] + 2


def test_an_archive_without_a_copy_says_which_folders_are_no_buckets(own, tmp_path):
    stores = [f"--store={tmp_path / f'd{number}'}" for number in (1, 2)]
    assert own.run("init", *stores).returncode == 0
    file = tmp_path / "file"
    file.write_text("moon")
    for folder in ("photos", "papers/1969", "No Bucket"):
        assert own.run("put", str(file), "--to", folder).returncode == 0
    assert own.run("put", str(file)).returncode == 0
    with own:
        assert "these folders of the archive have no bucket: papers, photos." in own.log.read_text()
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="photos")
        assert client.get_object(Bucket="photos", Key="file")["Body"].read() == b"moon"
    said = own.log.read_text()
    with own:
        assert "have no bucket" not in own.log.read_text()[len(said) :], "where there are buckets, folders are meant to be none"


def test_what_lies_in_a_folder_is_given_to_an_account_by_an_admin_and_not_taken(own, tmp_path):
    with own:
        taker, owner = own.add_account("taker"), own.add_account("owner")
    file = tmp_path / "file"
    file.write_text("moon")
    assert own.run("put", str(file), "--to", "photos").returncode == 0
    with own:
        for account in (taker, owner):
            with refused("BucketAlreadyExists", 409):
                connect(own.server, account).create_bucket(Bucket="photos")
        connect(own.server, taker).create_bucket(Bucket="photos-of-mine")
        connect(own.server, own.account).create_bucket(Bucket="photos")
        with refused("AccessDenied", 403):
            connect(own.server, owner).get_object(Bucket="photos", Key="file")
    assert own.run("accounts", "give-bucket", "photos", "owner").returncode == 0
    with own:
        assert connect(own.server, owner).get_object(Bucket="photos", Key="file")["Body"].read() == b"moon"
        with refused("BucketAlreadyExists", 409):
            connect(own.server, taker).create_bucket(Bucket="photos")
        assert "photos" not in [bucket["Name"] for bucket in connect(own.server, own.account).list_buckets()["Buckets"]]
    for arguments, expected in ((("papers", "owner"), "no bucket called papers"), (("photos", "nobody"), "no account called nobody")):
        ran = own.run("accounts", "give-bucket", *arguments)
        assert ran.returncode == 1 and expected in ran.stderr, ran


def test_a_lost_locked_bucket_is_not_taken_by_another_account(own):
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        put = client.put_object(Bucket="locked", Key="key", Body=b"kept", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=UNTIL)
        client.delete_object(Bucket="locked", Key="key")
    with own:
        own.kill()
        lose(own, "service.db")
        own.start("--without-copy")
        taker = own.add_account("taker")
        with refused("BucketAlreadyExists", 409):
            connect(own.server, taker).create_bucket(Bucket="locked")
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        assert client.get_object(Bucket="locked", Key="key", VersionId=put["VersionId"])["Body"].read() == b"kept"


def test_the_copy_is_text_without_secrets_that_nobody_puts_or_removes_by_accident(own, tmp_path):
    with own:
        connect(own.server, own.account).create_bucket(Bucket="photos")
        key, secret = own.account.access_key, own.account.secret_key
    text = own.run("get", COPY, "-").stdout
    lines = [json.loads(line) for line in text.splitlines()]
    assert [next(iter(line)) for line in lines] == ["head", "account", "bucket", "end"]
    assert key not in text and secret not in text and "wrapped" not in text
    assert COPY not in own.run("ls").stdout and COPY not in own.run("ls", "--versions").stdout
    assert own.run("ls", ".fulgurite").stdout == COPY + "\n"
    for arguments in (["rm", COPY], ["rm", "-r", ".fulgurite"], ["rm", "/.fulgurite/"], ["rm", COPY, "--version", "1"]):
        ran = own.run(*arguments)
        assert ran.returncode == 1 and "reserved for the archive" in ran.stderr, ran
    file = tmp_path / "file"
    file.write_text("mine")
    for arguments in ([str(file), "--name", COPY], [str(file), "--to", ".fulgurite"], [str(file), "--to", ".fulgurite/more"]):
        ran = own.run("put", *arguments)
        assert ran.returncode == 1 and "reserved for the archive" in ran.stderr, ran
    everything = tmp_path / "everything"
    assert own.run("get", "--all", str(everything)).returncode == 0
    assert not (everything / ".fulgurite").exists()
    (everything / ".fulgurite").mkdir()
    (everything / ".fulgurite/service.jsonl").write_text("mine")
    (everything / "other").write_text("mine")
    ran = own.run("put", ".", cwd=everything)
    assert ran.returncode == 1 and "reserved for the archive" in ran.stderr, ran
    assert own.run("ls").stdout == "other\n"
    assert own.run("get", COPY, "-").stdout == text
    with own:
        client = connect(own.server, own.account)
        with refused({"InvalidBucketName", "NoSuchBucket"}, {400, 404}):
            client.get_object(Bucket=".fulgurite", Key="service.jsonl")
        with refused({"InvalidArgument", "NoSuchBucket"}, {400, 404}):
            client.copy_object(Bucket="photos", Key="copy", CopySource={"Bucket": ".fulgurite", "Key": "service.jsonl"})
