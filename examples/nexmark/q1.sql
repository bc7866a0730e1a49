SELECT _ts, auction, bidder, 0.908::DOUBLE * price AS price, extra FROM bids
