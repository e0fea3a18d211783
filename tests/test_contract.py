"""The secret of keyed hashing: read from a file that is its owner's alone."""

import pytest

from dedup.errors import ConfigError
from dedup.settings.contract import load_tokenizer, read_key
from dedup.settings.files import load_config


@pytest.fixture
def key_file(tmp_path):
    file = tmp_path / "key"
    file.write_bytes(b"sixteen bytes ok\n")
    return file


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_the_owners_is_read(key_file, mode):
    key_file.chmod(mode)

    assert load_tokenizer(load_config(None, None, [f"hash.key_file={key_file}"])).key == b"sixteen bytes ok"


def test_a_path_with_a_nul_is_no_key():
    with pytest.raises(ConfigError, match=r"^hash\.key_file: a\0b must be a readable file \(got embedded null byte\)$"):
        read_key("a\0b")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o602, 0o610])
def test_a_key_that_others_can_reach_is_refused_with_the_command_that_mends_it(key_file, mode):
    key_file.chmod(mode)

    with pytest.raises(ConfigError, match=rf"owner's alone .*got mode {mode:04o}\); chmod 600 {key_file}$") as caught:
        load_tokenizer(load_config(None, None, [f"hash.key_file={key_file}"]))
    assert "sixteen" not in str(caught.value)
