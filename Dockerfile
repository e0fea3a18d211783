# The job with its Spark, from Debian's packages and requirements-spark.lock: docker build -t dedup .
# docker run --rm --volume /data:/data dedup run --input /data/corpus --output /data/clean
FROM debian:trixie-slim

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
# By number: Kubernetes cannot tell from a name that it is not root.
USER 1000
WORKDIR /home/dedup
ENTRYPOINT ["/opt/dedup/scripts/dedup"]
