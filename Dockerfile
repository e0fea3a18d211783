# The job with its Spark, from Debian's packages and requirements-spark.lock: docker build -t dedup .
# docker run --rm --volume /data:/data dedup run --input /data/corpus --output /data/clean
# Named by tag for its reader, and taken by digest: another image cannot come in its place.
FROM debian:trixie-20260918-slim@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless procps python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

# What takes minutes comes before what changes often.
WORKDIR /opt/dedup
COPY requirements.lock requirements-spark.lock ./
COPY scripts/setup scripts/jars scripts/
RUN scripts/setup && rm -rf /root/.cache
COPY . .

# Spark asks for its user's name and home.
RUN useradd --uid 1000 --create-home dedup

# What a run compiles is compiled here, since a container keeps nothing: modules beside their sources, and loops in a
# folder that the user may write to, as Numba asks; for any processor, as nothing tells which one will run them.
ENV NUMBA_CACHE_DIR=/opt/dedup/.venv/loops NUMBA_CPU_NAME=generic
RUN PYTHONPATH=. .venv/bin/python scripts/compile.py && chown -R 1000 "$NUMBA_CACHE_DIR"
# By number: Kubernetes cannot tell from a name that it is not root.
USER 1000
WORKDIR /home/dedup
ENTRYPOINT ["/opt/dedup/scripts/dedup"]
