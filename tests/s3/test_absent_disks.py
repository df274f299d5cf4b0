"""Disks that aren't mounted: what is on them can't be read now, and is there again when they are."""

from __future__ import annotations

import json

from botocore.exceptions import ClientError
import pytest

from serving import Own, connect, wait_until

CONTENT = {"small": b"small" * 100, "large": bytes(range(256)) * 8_192}


def take_away(own: Own) -> dict:
    """Renames the disks of two platters of three, of which one may be away. Returns where each is."""
    disks = sorted(mark.parent for mark in own.archive.rglob("fulgurite-store"))
    away = {disk: disk.with_name(f"{disk.name}-away") for disk in disks[:2]}
    for disk, elsewhere in away.items():
        disk.rename(elsewhere)
    return away


def test_what_is_on_absent_disks_is_unavailable_and_not_gone(tmp_path):
    own = Own(tmp_path)
    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="plain")
        for key, body in CONTENT.items():
            s3.put_object(Bucket="plain", Key=key, Body=body)
    assert own.run("flush").returncode == 0
    away = take_away(own)
    with own:
        s3 = connect(own.server, own.account)
        for key in CONTENT:
            for extra in ({}, {"Range": "bytes=10-99"}):
                with pytest.raises(ClientError) as refused:
                    s3.get_object(Bucket="plain", Key=key, **extra)
                answer = refused.value.response
                assert answer["Error"]["Code"] == "ServiceUnavailable", (key, answer)
                assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503
                assert int(answer["ResponseMetadata"]["HTTPHeaders"]["retry-after"]) > 0
            with pytest.raises(ClientError) as refused:
                s3.copy_object(Bucket="plain", Key="copy", CopySource={"Bucket": "plain", "Key": key})
            assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
            # What is known without the platters is told.
            assert s3.head_object(Bucket="plain", Key=key)["ContentLength"] == len(CONTENT[key])
        for disk, elsewhere in away.items():
            elsewhere.rename(disk)
        for key, body in CONTENT.items():
            assert s3.get_object(Bucket="plain", Key=key)["Body"].read() == body


def test_nothing_is_put_into_staging_that_is_not_mounted(tmp_path):
    own = Own(tmp_path)
    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="plain")
    staging, elsewhere = own.archive / "staging", own.archive / "unmounted"
    with own:
        s3 = connect(own.server, own.account)
        staging.rename(elsewhere)
        staging.mkdir()
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket="plain", Key="key", Body=b"content")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
        assert not list(staging.iterdir()), "what is put there is hidden when the disk is mounted"
        staging.rmdir()
        elsewhere.rename(staging)
        s3.put_object(Bucket="plain", Key="key", Body=b"content")
        assert s3.get_object(Bucket="plain", Key="key")["Body"].read() == b"content"


def test_a_restore_waits_for_absent_disks_and_others_go_on(tmp_path):
    own = Own(tmp_path)
    token = "moonlight-sonata-14"
    request = {"Days": 1, "GlacierJobParameters": {"Tier": "Expedited"}}

    def restored(s3, key: str) -> bool:
        return s3.head_object(Bucket="plain", Key=key)["Restore"].startswith('ongoing-request="false"')

    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="plain")
        for key in ("one", "two"):
            s3.put_object(Bucket="plain", Key=key, Body=CONTENT["small"], StorageClass="GLACIER")
        assert own.run("flush").returncode == 0
    (own.archive / "service.toml").write_text(f'[dashboard]\ntoken = "{token}"\n')
    away = take_away(own)
    with own:
        s3 = connect(own.server, own.account)
        for key in ("one", "two"):
            s3.restore_object(Bucket="plain", Key=key, RestoreRequest=request)
        s3.put_object(Bucket="plain", Key="staged", Body=b"staged", StorageClass="GLACIER")
        s3.restore_object(Bucket="plain", Key="staged", RestoreRequest=request | {"GlacierJobParameters": {"Tier": "Standard"}})
        wait_until("the staged object is restored", lambda: restored(s3, "staged"))

        def waiting() -> list[str]:
            status, body = own.get("/-/restores", Authorization=f"Bearer {token}")
            assert status == 200, body
            return [one["waits_for"] for one in json.loads(body)["restores"]]

        wait_until("both wait for their stores", lambda: [text.startswith("stores that are absent") for text in waiting()] == [True, True])
        assert not restored(s3, "one")
    # A restart forgets none.
    with own:
        s3 = connect(own.server, own.account)
        assert not restored(s3, "one") and not restored(s3, "two")
        for disk, elsewhere in away.items():
            elsewhere.rename(disk)
        # Sooner than after a minute.
        wait_until("both are restored", lambda: restored(s3, "one") and restored(s3, "two"))
        assert s3.get_object(Bucket="plain", Key="one")["Body"].read() == CONTENT["small"]
