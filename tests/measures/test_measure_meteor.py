"""METEOR with and without WordNet: worked values, NLTK as the reference, no silent fallback."""

import random
import zipfile

import pytest

from eval.measures import wordnet
from eval.measures.item import Item
from eval.measures.meteor import Meteor
from eval.scoring import Unavailable, aggregate, score

TABLE = [
    ("cat", "cat", 0.5, 0.5),
    ("the cat", "the cat", 0.9375, 0.9375),
    ("The cat sat", "the cat sat", 0.981481, 0.981481),
    ("cats running", "cat run", 0.9375, 0.9375),
    ("car", "auto", 0.5, 0),
    ("a car", "a auto", 0.9375, 0.25),
    ("sick man", "ill man", 0.9375, 0.25),
    ("car", "automobile", 0, 0),
    ("may 7 2023", "7 may 2023", 0.5, 0.5),
    ("the cat sat on the mat", "on the mat sat the cat", 0.5, 0.5),
    ("she went to paris last year", "she visited paris last year", 0.735294, 0.735294),
    ("cat.", "cat", 0, 0),
    ("", "cat", 0, 0),
]
needs_wordnet = pytest.mark.skipif(
    wordnet.find_wordnet() is None, reason="WordNet is not on this machine"
)

# WordNet's file format in miniature: car/auto in one sense, sick/ill in another, irregular men
LICENCE = "  1 invented words\n"
CAR = "00000019 06 n 02 car 0 auto 0 000 | invented  \n"
SECOND = len(LICENCE) + len(CAR)
MOTOR_CAR = f"{SECOND:08} 06 n 02 car 0 motor_car 0 000 | invented  \n"
SICK = "00000019 00 a 02 sick 0 ill(p) 0 000 | invented  \n"
FILES = {
    "data.noun": LICENCE + CAR + MOTOR_CAR,
    "index.noun": LICENCE + "auto n 1 0 1 0 00000019  \n"
    f"car n 2 0 2 0 00000019 {SECOND:08}  \n",
    "data.adj": LICENCE + SICK,
    "index.adj": LICENCE + "ill a 1 0 1 0 00000019  \nsick a 1 0 1 0 00000019  \n",
    "data.verb": LICENCE, "index.verb": LICENCE, "data.adv": LICENCE, "index.adv": LICENCE,
    "noun.exc": "carren car\n", "adj.exc": "", "verb.exc": "", "adv.exc": "",
}  # fmt: skip


@pytest.fixture
def fresh():
    """Forget what was found, before and after."""
    for cached in (wordnet.find_wordnet, wordnet.synonyms):
        cached.cache_clear()
    yield
    for cached in (wordnet.find_wordnet, wordnet.synonyms):
        cached.cache_clear()


@pytest.fixture
def small_wordnet(tmp_path, monkeypatch, fresh):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("MEMSYS_WORDNET", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("prediction", "gold", "with_wordnet", "without"), TABLE)
def test_without_wordnet(prediction, gold, with_wordnet, without):
    assert Meteor(wordnet=False).score(prediction, gold) == pytest.approx(without, abs=1e-6)


@needs_wordnet
@pytest.mark.parametrize(("prediction", "gold", "with_wordnet", "without"), TABLE)
def test_with_wordnet(prediction, gold, with_wordnet, without):
    assert Meteor().score(prediction, gold) == pytest.approx(with_wordnet, abs=1e-6)


@pytest.mark.parametrize(("prediction", "gold", "with_wordnet", "without"), TABLE)
def test_the_table_needs_only_two_senses(small_wordnet, prediction, gold, with_wordnet, without):
    assert Meteor().score(prediction, gold) == pytest.approx(with_wordnet, abs=1e-6)


def test_synonyms_of_the_small_wordnet(small_wordnet):
    found = wordnet.find_wordnet()
    assert found.synonyms("car") == {"car", "auto"}  # motor_car is no single word
    assert found.synonyms("cars") == {"car", "auto"}
    assert found.synonyms("carren") == {"car", "auto"}
    assert found.synonyms("ILL") == {"sick", "ill"}
    assert found.synonyms("dog") == frozenset()


def test_a_zip_file_serves_as_nltk_leaves_it(small_wordnet, tmp_path, monkeypatch, fresh):
    folder = tmp_path / "data" / "corpora"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "wordnet.zip", "w") as packed:
        for name, text in FILES.items():
            packed.writestr(f"wordnet/{name}", text)
    monkeypatch.delenv("MEMSYS_WORDNET")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))
    assert wordnet.find_wordnet().synonyms("sick") == {"sick", "ill"}


def nltk_reader(tmp_path, monkeypatch):
    """Build NLTK's reader on the same files, with the table that Debian's package lacks."""
    import shutil

    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    source = next(f for f in wordnet._folders() if (f / "data.noun").is_file())
    target = tmp_path / "corpora" / "wordnet"
    target.mkdir(parents=True)
    for kind in ("index", "data"):
        for part in ("noun", "verb", "adj", "adv"):
            shutil.copy(source / f"{kind}.{part}", target)
    for part in ("noun", "verb", "adj", "adv"):
        shutil.copy(source / f"{part}.exc", target)
    (target / "lexnames").write_text("".join(f"{i:02}\tname{i}\t1\n" for i in range(45)))
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])

    class Reader(WordNetCorpusReader):
        def map_wn(self, version="wordnet"):
            return None

    return Reader(str(target), None)


@needs_wordnet
def test_equals_nltk(tmp_path, monkeypatch):
    from nltk.translate.meteor_score import meteor_score

    reader = nltk_reader(tmp_path, monkeypatch)
    rng = random.Random(4)
    text = (
        "car auto cars sick ill man men physician doctor run ran running big large bigger happy "
        "glad Paris the a visited went gone better good leaves leaf children. purchased bought"
    )
    words = text.split()
    for word in words:
        theirs = {
            lemma.name()
            for sense in reader.synsets(word)
            for lemma in sense.lemmas()
            if "_" not in lemma.name()
        }
        assert wordnet.synonyms(word) == theirs, word
    for _ in range(300):
        given = " ".join(rng.choices(words, k=rng.randint(1, 10)))
        wanted = " ".join(rng.choices(words, k=rng.randint(1, 10)))
        theirs = meteor_score([wanted.split()], given.split(), wordnet=reader)
        assert Meteor().score(given, wanted) == pytest.approx(theirs)


def test_missing_wordnet_is_a_dash_with_the_command_that_mends_it(monkeypatch, tmp_path, fresh):
    monkeypatch.setenv("MEMSYS_WORDNET", str(tmp_path / "nothing"))
    items = [Item("1", answer="car", reference="auto")]
    found = aggregate(Meteor(), items)
    assert isinstance(found, Unavailable)
    assert "apt-get install wordnet-base" in found.reason
    plain = score(items, ["meteor", "meteor_nowordnet"]).plain()
    assert plain["mean"] == {"meteor": None, "meteor_nowordnet": 0.0}
    assert list(plain["unavailable"]) == ["meteor"]
    assert "meteor" not in plain["items"][0]
    assert plain["resources"] == {"meteor_nowordnet": {"wordnet": "false"}}
    with pytest.raises(LookupError, match="WordNet"):
        Meteor().score("car", "auto")
